import { constants, DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { createTransaction, GroupCommit, inMemoryDurability } from "../../../adapters/sqlite/group-commit.ts";
import { ConditionFailed } from "../../../core/errors.ts";

let database: DatabaseSync;
let group: GroupCommit;
let commits = 0;

beforeEach(() => {
  database = new DatabaseSync(":memory:");
  database.exec(`
    CREATE TABLE written (number INTEGER PRIMARY KEY);
    CREATE TABLE waiting (number INTEGER REFERENCES written (number) DEFERRABLE INITIALLY DEFERRED);
  `);
  commits = 0;
  const transaction = createTransaction(database, inMemoryDurability);
  group = new GroupCommit({
    begin: () => transaction.begin(),
    finish(writes) {
      commits += 1;
      return transaction.finish(writes);
    },
  });
});
afterEach(() => database.close());

const numbers = (): unknown[] =>
  database
    .prepare("SELECT number FROM written ORDER BY number")
    .all()
    .map((row) => row["number"]);
const add = (number: number): Promise<number> =>
  group.add(() => {
    database.exec(`INSERT INTO written VALUES (${number})`);
    return number;
  }, 1000);
const fail = (): Promise<never> =>
  group.add((): never => {
    throw new ConditionFailed("no");
  }, 1000);

it("writes all commits of one turn of the event loop in one transaction, each with its own result", async () => {
  await expect(Promise.all([add(1), add(2), add(3)])).resolves.toEqual([1, 2, 3]);
  expect(commits).toBe(1);
  await add(4);
  expect(commits).toBe(2);
  expect(numbers()).toEqual([1, 2, 3, 4]);
});

it("rolls back only the commit that fails", async () => {
  const failed = group.add(() => {
    database.exec("INSERT INTO written VALUES (2)");
    throw new ConditionFailed("no");
  }, 1000);
  const repeated = add(1);
  const results = await Promise.allSettled([add(3), failed, repeated, add(1)]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "rejected"]);
  await expect(failed).rejects.toBeInstanceOf(ConditionFailed);
  expect(results[3]).toMatchObject({ reason: { code: "storage_unavailable" } });
  expect(numbers()).toEqual([1, 3]);
});

it("rejects every writer of the group when the commit fails, and continues with the next group", async () => {
  const broken = group.add(() => database.exec("INSERT INTO waiting VALUES (9)"), 1000);
  const results = await Promise.allSettled([add(1), fail(), broken, add(2)]);
  for (const result of results) {
    expect(result).toMatchObject({
      reason: { code: "storage_unavailable", cause: { code: "ERR_SQLITE_ERROR" } },
    });
  }
  expect(numbers()).toEqual([]);
  await expect(add(1)).resolves.toBe(1);
});

it("rejects every writer of the group when a fault ends the transaction before the commit", async () => {
  const broken = () => group.add(() => database.exec("INSERT OR ROLLBACK INTO written VALUES (1)"), 1000);
  const later = { ran: false };
  const results = await Promise.allSettled([
    add(1),
    fail(),
    broken(),
    group.add(() => {
      later.ran = true;
    }, 1000),
  ]);
  for (const result of results) {
    // The cause is the fault itself, not what failed because of it.
    expect(result).toMatchObject({ reason: { code: "storage_unavailable", cause: { errcode: 1555 } } });
  }
  expect(later.ran).toBe(false);
  expect(numbers()).toEqual([]);
  await expect(add(1)).resolves.toBe(1);
});

it("continues after a transaction that could not be rolled back", async () => {
  const { SQLITE_TRANSACTION, SQLITE_SAVEPOINT, SQLITE_DENY, SQLITE_OK } = constants;
  database.setAuthorizer((action, what) =>
    [SQLITE_TRANSACTION, SQLITE_SAVEPOINT].includes(action) && what === "ROLLBACK" ? SQLITE_DENY : SQLITE_OK,
  );
  for (const result of await Promise.allSettled([add(1), fail(), add(2)])) {
    expect(result).toMatchObject({ reason: { code: "storage_unavailable" } });
  }
  await group.idle();
  await expect(add(3)).rejects.toMatchObject({ code: "storage_unavailable" });
  database.setAuthorizer(null);
  await expect(add(4)).resolves.toBe(4);
  expect(numbers()).toEqual([4]);
  await group.idle();
});

it("lets the event loop run between large groups", async () => {
  const all = Array.from({ length: 1000 }, (_, index) => index + 1);
  let turns = 0;
  let next: NodeJS.Immediate;
  const turn = (): void => {
    turns += 1;
    next = setImmediate(turn);
  };
  const written = Promise.all(all.map(add)).finally(() => clearImmediate(next));
  turn();
  await expect(written).resolves.toEqual(all);
  expect(commits).toBe(4);
  expect(turns).toBeGreaterThan(2);
  expect(numbers()).toEqual(all);
});

it("resolves when nothing waits any more", async () => {
  await group.idle();
  const written = add(1);
  await group.idle();
  expect(numbers()).toEqual([1]);
  await written;
});
