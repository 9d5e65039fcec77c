import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { openSqlite, openSqliteChecks } from "../../../adapters/sqlite/index.ts";
import { migrate, STEPS } from "../../../adapters/sqlite/migrations.ts";
import { claimable, deliver, heads } from "../../../lib/testing/contract/deliveries.ts";
import { delivery, ManualClock, store } from "../../../lib/testing/contract/stage.ts";
import { DatabaseFiles } from "./database-files.ts";

const files = new DatabaseFiles();
beforeAll(() => files.create());
afterAll(() => files.remove());

/** As the first step kept them: a lane with one delivered and two that wait, another one with its first delivery. */
const KEPT = `
INSERT INTO deliveries
    (position, id, receiver, sub, type, payload, at, sequence, state, attempts, failures, stored_at, next_attempt_at,
     finished_at)
  VALUES (3, 'a1', 'service:1', 'a', 'PROFILE_CHANGED', 'sealed', 1, 4, 'delivered', 1, 0, 5, NULL, 6),
    (4, 'a2', 'service:1', 'a', 'PROFILE_CHANGED', 'sealed', 1, 5, 'waiting', 0, 0, 5, 5, NULL),
    (5, 'b1', 'service:1', 'b', 'PROFILE_CHANGED', 'sealed', 1, 1, 'waiting', 0, 0, 7, 7, NULL),
    (6, 'a3', 'service:1', 'a', 'PROFILE_CHANGED', 'sealed', 1, 6, 'waiting', 0, 0, 8, 8, NULL),
    (9, 'c1', 'service:1', 'c', 'PROFILE_CHANGED', 'sealed', 1, 1, 'waiting', 0, 0, 9, 9, NULL);
DELETE FROM deliveries WHERE id = 'c1';
INSERT INTO attempts VALUES (3, 1, 5, 1, 200, NULL, NULL);
INSERT INTO lanes (receiver, sub, last_sequence, last_delivered, fence, due_at)
  VALUES ('service:1', 'a', 6, 4, 2, 5), ('service:1', 'b', 1, 0, 0, 7);`;

function made(steps: readonly string[], sql: string): string {
  const path = files.next();
  const database = new DatabaseSync(path);
  migrate(database, steps);
  database.exec(sql);
  database.close();
  return path;
}

describe("a database of an earlier version", () => {
  it("keeps its deliveries, in their lanes and in their order", async () => {
    const clock = new ManualClock();
    const path = made(STEPS.slice(0, 1), KEPT);
    const storage = await openSqlite({ path, clock });
    const stage = { storage, clock };
    const ids = async (): Promise<string[]> =>
      (await storage.deliveries.list({ limit: 9 })).map(({ id }) => id);
    await expect(ids()).resolves.toEqual(["a1", "a2", "b1", "a3"]);
    await expect(storage.deliveries.attempts("a1")).resolves.toMatchObject([{ status: 200 }]);
    await expect(storage.deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 0 });
    expect((await heads(stage)).map(({ id }) => id)).toEqual(["a2", "b1"]);
    await store(stage, delivery("a4", "a"), delivery("d1", "d"));
    const stored = await storage.deliveries.find("a4");
    expect(stored).toMatchObject({ sequence: 7 });
    for (let times = 0; times < 3; times += 1) await deliver(stage);
    expect((await claimable(stage)).toSorted()).toEqual(["a4", "d1"]);
    await storage.close();
    const database = new DatabaseSync(path);
    // Numbers of deliveries that are gone do not come again.
    expect(database.prepare("SELECT position FROM deliveries WHERE id = 'a4'").get()).toEqual({
      position: 10,
    });
    database.close();
  });

  it("has the tables and indexes of a new one afterwards, also when it was empty", async () => {
    for (const sql of [KEPT, ""]) {
      const clock = new ManualClock();
      const path = made(STEPS.slice(0, 1), sql);
      await (await openSqlite({ path, clock })).close();
      const checks = await openSqliteChecks({ path, clock, namesOf: () => [] });
      const found = await Promise.all(checks.checks.map((check) => check.find(9)));
      expect(found.flat()).toEqual([]);
      await checks.close();
    }
  });
});
