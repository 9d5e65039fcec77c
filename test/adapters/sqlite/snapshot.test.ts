/** Requests that arrived together share one look at the file, and none sees less than what was acknowledged to it. */
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, beforeEach, expect, it } from "@jest/globals";
import { connect } from "../../../adapters/sqlite/connection.ts";
import { openSqlite } from "../../../adapters/sqlite/index.ts";
import type { Storage } from "../../../adapters/storage.ts";
import { START, artifact, ManualClock } from "../../../lib/testing/contract/stage.ts";
import { DatabaseFiles } from "./database-files.ts";

const files = new DatabaseFiles();
const clock = new ManualClock(START);
const opened: Storage[] = [];
const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

async function openBoth(): Promise<readonly [Storage, Storage]> {
  const both = [await openSqlite({ path: files.path, clock }), await openSqlite({ path: files.path, clock })];
  opened.push(...both);
  return both as [Storage, Storage];
}

async function put(storage: Storage, key: string): Promise<void> {
  const writes = [{ kind: "put", artifact: artifact(clock, "Session", key) }] as const;
  await storage.artifacts.commit({ id: key, deadline: clock.now() + 5000, writes });
}

beforeAll(() => files.create());
beforeEach(() => void files.next());
afterAll(async () => {
  await Promise.all(opened.map((storage) => storage.close()));
  await files.remove();
});

it("a request that has arrived sees what another connection commits before the look", async () => {
  const [one, other] = await openBoth();
  const arrived = one.arrived();
  await put(other, "a");
  await arrived;
  expect(await one.artifacts.find("Session", "a")).toBeDefined();
});

it("the look ends with the turn: what is committed after it is seen by the next request", async () => {
  const [one, other] = await openBoth();
  await one.arrived();
  expect(await one.artifacts.find("Session", "a")).toBeUndefined();
  await put(other, "a");
  await one.arrived();
  expect(await one.artifacts.find("Session", "a")).toBeDefined();
});

it("a read that belongs to no request looks for itself, while others wait for theirs", async () => {
  const [one, other] = await openBoth();
  expect(await one.artifacts.find("Session", "a")).toBeUndefined();
  const arrived = one.arrived();
  await put(other, "a");
  expect(await one.artifacts.find("Session", "a")).toBeDefined();
  await arrived;
});

it("requests of one turn go on together, and write in the middle of it", async () => {
  const [one, other] = await openBoth();
  const order: string[] = [];
  await Promise.all(
    ["a", "b", "c"].map(async (key) => {
      await one.arrived();
      order.push(`${key} reads`);
      expect(await one.artifacts.find("Session", key)).toBeUndefined();
      await put(one, key);
      order.push(`${key} wrote`);
      expect(await one.artifacts.find("Session", key)).toBeDefined();
    }),
  );
  expect(order.slice(0, 3)).toEqual(["a reads", "b reads", "c reads"]);
  expect(await other.artifacts.find("Session", "c")).toBeDefined();
});

it("nothing is held open when everybody is gone, and a storage that was closed still answers", async () => {
  const [one] = await openBoth();
  const arrived = one.arrived();
  const closed = one.close();
  await arrived;
  await expect(one.artifacts.find("Session", "a")).rejects.toMatchObject({ code: "storage_unavailable" });
  await closed;
  await one.arrived();
  await nextTurn();
  await expect(one.artifacts.find("Session", "a")).rejects.toMatchObject({ code: "storage_unavailable" });
});

it("one read sees one state, whatever another connection commits in the middle of it", async () => {
  const one = await connect(files.path, clock);
  const other = new DatabaseSync(files.path);
  const count = one.first("SELECT count(*) FROM counters");
  const add = other.prepare("INSERT INTO counters (name, value) VALUES (?, 0)");
  let number = 0;
  const look = (): unknown[] => {
    const before = count()?.[0];
    number += 1;
    add.run(`new${number}`);
    return [before, count()?.[0]];
  };
  try {
    const [first, same] = await one.read(look);
    expect(same).toBe(first);
    await expect(one.read(look)).resolves.toEqual([Number(first) + 1, Number(first) + 1]);
    await one.arrived();
    const [shared, sharedToo] = await one.read(look);
    expect(sharedToo).toBe(shared);
  } finally {
    other.close();
    await one.close();
  }
});

it("a read that fails leaves nothing open: the next one sees what was committed since", async () => {
  const one = await connect(files.path, clock);
  const select = one.all("SELECT name FROM counters");
  const names = await one.read(() => select().length);
  try {
    await expect(
      one.read(() => {
        select();
        throw new RangeError("no");
      }),
    ).rejects.toThrow("no");
    const other = new DatabaseSync(files.path);
    other.exec("INSERT INTO counters (name, value) VALUES ('late', 0)");
    other.close();
    await expect(one.read(() => select().length)).resolves.toBe(names + 1);
  } finally {
    await one.close();
  }
});
