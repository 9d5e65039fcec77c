import { type ChildProcess, spawn } from "node:child_process";
import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { openSqlite } from "../../../adapters/sqlite/index.ts";
import type { Storage } from "../../../adapters/storage.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import {
  account,
  artifact,
  change,
  client,
  creation,
  deletion,
} from "../../../lib/testing/contract/stage.ts";
import { DatabaseFiles } from "./database-files.ts";

const files = new DatabaseFiles();
const clock = createSystemClock();

beforeAll(() => files.create());
afterAll(() => files.remove());

async function rest(lines: AsyncIterableIterator<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of lines) all.push(line);
  return all;
}

/** Reads the file itself. */
function ask(sql: string): unknown {
  const database = new DatabaseSync(files.path);
  try {
    return Object.values(database.prepare(sql).get() ?? {})[0];
  } finally {
    database.close();
  }
}

const put = (storage: Storage, key: string, wait: number) =>
  storage.artifacts.commit({
    id: key,
    deadline: clock.now() + wait,
    writes: [{ kind: "put", artifact: artifact(clock, "Session", key) }],
  });

describe("an SQLite file of several processes", () => {
  const opened: Storage[] = [];
  const children: ChildProcess[] = [];

  beforeEach(() => {
    files.next();
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
    await Promise.all(opened.splice(0).map((storage) => storage.close()));
  });

  async function openFile(path = files.path): Promise<Storage> {
    const storage = await openSqlite({ path, clock });
    opened.push(storage);
    return storage;
  }

  /** Starts another process on the file; its lines come as they are said. */
  function start(task: string, prefix = ""): { child: ChildProcess; lines: AsyncIterableIterator<string> } {
    const script = join(import.meta.dirname, "child.ts");
    const command = `${prefix} exec "${process.execPath}" "${script}" ${task} "${files.path}"`;
    const child = spawn("sh", ["-c", command], { stdio: ["pipe", "pipe", "inherit"] });
    children.push(child);
    return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
  }

  it("is created with its folder, for its owner only", async () => {
    const path = join(dirname(files.path), "deep", "er", "sign-in.db");
    const storage = await openFile(path);
    await storage.directory.keep("name", "value");
    const modes = await Promise.all(
      ["", "-wal", "-shm"].map(async (end) => (await stat(path + end)).mode & 0o777),
    );
    expect(modes).toEqual([0o600, 0o600, 0o600]);
  });

  it("is written through a log", async () => {
    const storage = await openFile();
    await storage.directory.keep("name", "value");
    expect(ask("PRAGMA journal_mode")).toBe("wal");
  });

  it("keeps everything that was acknowledged when the process is killed", async () => {
    const { child, lines } = start("commit");
    const acknowledged: string[] = [];
    for await (const line of lines) {
      acknowledged.push(line);
      if (acknowledged.length === 1000) child.kill("SIGKILL");
    }
    expect(acknowledged.length).toBeGreaterThanOrEqual(1000);
    expect(ask("PRAGMA integrity_check")).toBe("ok");
    const storage = await openFile();
    for (const number of acknowledged) {
      const person = account(Number(number));
      const found = await Promise.all([
        storage.artifacts.find("AccessToken", `${number} one`),
        storage.artifacts.find("AccessToken", `${number} two`),
        storage.directory.findAccount(person.sub),
        storage.directory.findAccountByName(person.email),
        storage.deliveries.find(number),
      ]);
      expect(found).not.toContain(undefined);
    }
    // What was not acknowledged is there as a whole or not at all.
    expect(ask("SELECT count(*) % 2 FROM artifacts")).toBe(0);
    expect(ask("SELECT (SELECT count(*) FROM accounts) - (SELECT count(*) FROM deliveries)")).toBe(0);
  });

  it("gets one schema from several processes that start at once, and they don't lose each other's writes", async () => {
    const starting = Array.from({ length: 4 }, () => start("count"));
    for (const { lines } of starting) await expect(lines.next()).resolves.toMatchObject({ value: "ready" });
    for (const { child } of starting) child.stdin?.end();
    const numbers = (await Promise.all(starting.map(({ lines }) => rest(lines)))).map((all) =>
      all.map(Number),
    );
    expect(numbers.flat().toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 100 }, (_, index) => index + 1),
    );
    for (const own of numbers) expect(own).toEqual(own.toSorted((a, b) => a - b));
    expect(ask("PRAGMA integrity_check")).toBe("ok");
  });

  it("waits for another process's lock until the deadline, and the event loop goes on", async () => {
    const storage = await openFile();
    await put(storage, "before", 1000);
    const { lines } = start("lock");
    await lines.next();
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 5);
    const refused = put(storage, "refused", 300);
    const account5s = storage.directory.commitAccount(creation(account(1)));
    await expect(refused).rejects.toMatchObject({
      code: "storage_unavailable",
      cause: { code: "ERR_SQLITE_ERROR", errcode: 5 },
    });
    expect(turns).toBeGreaterThan(2);
    clearInterval(timer);
    // Reading needs no lock.
    await expect(storage.artifacts.find("Session", "before")).resolves.toBeDefined();
    await storage.parts[0]?.ping();
    await expect(account5s).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(storage.directory.findAccount("sub-1")).resolves.toBeUndefined();
  });

  it("writes when another process's lock is released in time, and when its holder is killed", async () => {
    const storage = await openFile();
    for (const release of [
      (child: ChildProcess) => child.stdin?.end(),
      (child: ChildProcess) => child.kill("SIGKILL"),
    ]) {
      const { child, lines } = start("lock");
      await lines.next();
      const written = Promise.all([put(storage, "a", 30_000), put(storage, "b", 30_000)]);
      await pause(30);
      await expect(storage.artifacts.find("Session", "a")).resolves.toBeUndefined();
      release(child);
      await written;
      await expect(storage.artifacts.find("Session", "b")).resolves.toBeDefined();
      await storage.artifacts.commit({
        id: "clean",
        deadline: clock.now() + 5000,
        writes: ["a", "b"].map((key) => ({ kind: "remove", model: "Session", key, mustExist: true })),
      });
    }
  });

  it("is opened when the process that has a new file locked lets it go", async () => {
    const { child, lines } = start("lock");
    await lines.next();
    const opening = openFile();
    await pause(30);
    child.stdin?.end();
    await expect((await opening).directory.keep("name", "value")).resolves.toBe("value");
  });

  it("finishes or refuses what waits for a lock when it is closed", async () => {
    const storage = await openFile();
    const { lines } = start("lock");
    await lines.next();
    const written = put(storage, "a", 200);
    const closed = storage.close();
    await expect(written).rejects.toMatchObject({ code: "storage_unavailable" });
    await closed;
  });

  it("answers with the change of another connection as soon as that is acknowledged", async () => {
    const [one, two] = [await openFile(), await openFile()];
    const ada = account(1);
    const news = client("news");
    await one.directory.commitAccount(creation(ada));
    await one.directory.commitClient({ client_id: "news", expectedVersion: undefined, record: news });
    for (let version = 1; version <= 20; version += 1) {
      const [writer, reader] = version % 2 === 0 ? [one, two] : [two, one];
      await expect(reader.directory.findAccount(ada.sub)).resolves.toMatchObject({ version });
      await expect(reader.directory.findClient("news")).resolves.toMatchObject({ version });
      await writer.directory.commitAccount(change({ ...ada, version }, { name: `name ${version}` }));
      const record = { ...news, version: version + 1 };
      await writer.directory.commitClient({ client_id: "news", expectedVersion: version, record });
      for (const storage of [one, two]) {
        await expect(storage.directory.findAccount(ada.sub)).resolves.toMatchObject({
          version: version + 1,
          name: `name ${version}`,
        });
        await expect(storage.directory.findClient("news")).resolves.toMatchObject({ version: version + 1 });
      }
    }
    await two.directory.commitAccount(deletion({ ...ada, version: 21 }));
    await two.directory.commitClient({ client_id: "news", expectedVersion: 21, record: undefined });
    await expect(one.directory.findAccount(ada.sub)).resolves.toBeUndefined();
    await expect(one.directory.findClient("news")).resolves.toBeUndefined();
  });

  it("finds every one of more accounts than are remembered", async () => {
    const storage = await openFile();
    const people = Array.from({ length: 1100 }, (_, index) => account(index + 1));
    await Promise.all(people.map((person) => storage.directory.commitAccount(creation(person))));
    for (let round = 0; round < 2; round += 1) {
      const found = await Promise.all(people.map(({ sub }) => storage.directory.findAccount(sub)));
      expect(found).toEqual(people);
    }
  });

  it("answers StorageUnavailable when it may not grow, and keeps what it has", async () => {
    // The limit counts blocks of 512 bytes in a POSIX shell: 2 MiB.
    const { lines } = start("fill", "ulimit -f 4096;");
    const [code, small, kept] = await rest(lines);
    expect(code).toBe("storage_unavailable");
    expect(small).toMatch(/^(written|storage_unavailable),storage_unavailable$/);
    expect(kept).toBe("true");
    expect(ask("PRAGMA integrity_check")).toBe("ok");
  });
});
