/** What is acknowledged is on disk: the sync runs in another thread, once for all waiting writers. */
import { symlink } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { type Connection, connect } from "../../../adapters/sqlite/connection.ts";
import { createDurability, logDurability } from "../../../adapters/sqlite/group-commit.ts";
import { createRecordTables } from "../../../adapters/sqlite/database-file.ts";
import { ManualClock } from "../../records/rules/stage.ts";
import { DatabaseFiles } from "./database-files.ts";
import { closing } from "../../closing.ts";

const files = new DatabaseFiles();
beforeEach(() => void files.next());

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** A disk whose syncs end when the test says so. */
class Disk {
  readonly waiting: PromiseWithResolvers<void>[] = [];
  flushes = 0;
  flush = (): Promise<void> => {
    this.flushes += 1;
    const answer = Promise.withResolvers<void>();
    this.waiting.push(answer);
    return answer.promise;
  };
  answer(): void {
    this.waiting.shift()?.resolve();
  }
  fail(): void {
    this.waiting.shift()?.reject(Object.assign(new Error("no"), { code: "EIO" }));
  }
}

let disk: Disk;
beforeEach(() => {
  disk = new Disk();
});

describe("waiting for the disk", () => {
  it("covers all writers before a flush with that flush, and those during it with the next one", async () => {
    const { reached } = createDurability(disk.flush);
    const order: string[] = [];
    const first = reached().then(() => order.push("first"));
    const others = ["a", "b", "c"].map((name) => reached().then(() => order.push(name)));
    expect(disk.flushes).toBe(1);
    disk.answer();
    await first;
    expect(order).toEqual(["first"]);
    await turn();
    expect(disk.flushes).toBe(2);
    disk.answer();
    await Promise.all(others);
    expect(order).toEqual(["first", "a", "b", "c"]);
    const later = reached();
    expect(disk.flushes).toBe(3);
    disk.answer();
    await later;
  });

  it("stays failed after a flush has failed", async () => {
    const durability = createDurability(disk.flush);
    const waiting = [durability.reached(), durability.reached()];
    disk.fail();
    const [first] = await Promise.allSettled(waiting.slice(0, 1));
    expect(first).toMatchObject({ reason: { code: "storage_unavailable", cause: { code: "EIO" } } });
    // Even if the disk works again: nobody knows what was lost.
    await turn();
    disk.answer();
    await expect(waiting[1]).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(() => durability.check()).toThrow(expect.objectContaining({ code: "storage_unavailable" }));
  });

  it("fails when the log is missing", async () => {
    await expect(logDurability(files.path).reached()).rejects.toMatchObject({ cause: { code: "ENOENT" } });
  });

  it("finds the log of a database behind a link", async () => {
    const link = `${files.path}-link`;
    await symlink(files.path, link);
    await (await connect(files.path, new ManualClock(), { prepare: createRecordTables })).close();
    const connection = await connect(link, new ManualClock(), { prepare: createRecordTables });
    const insert = connection.change("INSERT INTO record_counters (name, value) VALUES ('a', 1)");
    await expect(connection.write(() => insert())).resolves.toBe(1);
    await connection.close();
  });
});

const state = async (promise: Promise<unknown>): Promise<string> => {
  await turn();
  await turn();
  return Promise.race([
    promise.then(
      () => "written",
      () => "refused",
    ),
    turn().then(() => "waiting"),
  ]);
};

function connectTo({ flush }: Disk): Promise<Connection> {
  const durability = { ...createDurability(flush), close: () => Promise.resolve() };
  return connect(files.path, new ManualClock(), { durability, prepare: createRecordTables });
}

describe("a database on that disk", () => {
  let connection: Connection;
  let put: (number: number) => Promise<void>;

  beforeEach(async () => {
    connection = closing(await connectTo(disk));
    const insert = connection.change("INSERT INTO record_counters (name, value) VALUES (?, 1)");
    put = (number) => connection.write(() => void insert(String(number)));
  });

  it("acknowledges a write when it is on the disk, not before, and continues with others meanwhile", async () => {
    const first = put(1);
    expect(await state(first)).toBe("waiting");
    const second = put(2);
    expect(await state(second)).toBe("waiting");
    const count = connection.first("SELECT count(*) FROM record_counters");
    expect(await connection.read(() => count()?.[0])).toBe(2);
    disk.answer();
    expect(await state(first)).toBe("written");
    expect(await state(second)).toBe("waiting");
    disk.answer();
    expect(await state(second)).toBe("written");
  });

  it("does not close before all writes are on the disk", async () => {
    const written = put(1);
    await turn();
    const closed = connection.close();
    expect(await state(closed)).toBe("waiting");
    disk.answer();
    await Promise.all([written, closed]);
  });

  it("rejects the writers with an unknown outcome, and writes nothing more, when the disk fails", async () => {
    const first = put(1);
    const outcome = expect(first).rejects.toMatchObject({ code: "storage_unavailable" });
    await turn();
    disk.fail();
    await outcome;
    await expect(put(2)).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(disk.flushes).toBe(1);
  });
});

describe("a relaxed commit", () => {
  let own: Connection;
  let other: Connection;
  let put: (connection: Connection, name: string, relaxed?: boolean) => Promise<unknown>;
  const otherDisk = new Disk();

  beforeEach(async () => {
    [own, other] = [await connectTo(disk), await connectTo(otherDisk)];
    put = (connection, name, relaxed = false) => {
      const insert = connection.change("INSERT INTO record_counters (name, value) VALUES (?, 1)");
      return connection.write(() => void insert(name), { relaxed });
    };
    // Nobody knows what was written before the file was opened.
    const first = put(own, "first", true);
    expect(await state(first)).toBe("waiting");
    disk.answer();
    expect(await state(first)).toBe("written");
    disk.flushes = 0;
  });
  afterEach(async () => {
    const closed = Promise.all([own.close(), other.close()]);
    for (const each of [disk, otherDisk]) while (each.waiting.length > 0) each.answer();
    await closed;
  });

  it("is acknowledged at once, without a flush", async () => {
    expect(await state(put(own, "a", true))).toBe("written");
    expect(disk.flushes).toBe(0);
  });

  it("waits for durable commits before it or with it, and causes no flush of its own", async () => {
    const lasting = put(own, "a");
    const beside = put(own, "b", true);
    expect(await state(beside)).toBe("waiting");
    const later = put(own, "c", true);
    const refused = put(own, "c", true);
    expect(await state(later)).toBe("waiting");
    // A failed condition is an answer, too.
    expect(await state(refused)).toBe("waiting");
    disk.answer();
    expect(await Promise.all([lasting, beside, later, refused].map(state))).toEqual([
      "written",
      "written",
      "written",
      "refused",
    ]);
    expect(disk.flushes).toBe(1);
    expect(await state(put(own, "d", true))).toBe("written");
  });

  it("waits for the disk once when another process has written, with or without a hint", async () => {
    const elsewhere = put(other, "a");
    expect(await state(elsewhere)).toBe("waiting");
    const relying = put(own, "b", true);
    expect(await state(relying)).toBe("waiting");
    disk.answer();
    expect(await state(relying)).toBe("written");
    expect(await state(put(own, "c", true))).toBe("written");
    expect(disk.flushes).toBe(1);
  });

  it("has an unknown outcome when the flush that it waits for fails", async () => {
    const all = [put(own, "a"), put(own, "b", true)];
    await turn();
    disk.fail();
    for (const each of all) await expect(each).rejects.toMatchObject({ code: "storage_unavailable" });
  });
});
