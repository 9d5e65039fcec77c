import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from "@jest/globals";
import type { Claim } from "../../../adapters/deliveries.ts";
import { openSqlite } from "../../../adapters/sqlite/index.ts";
import type { Storage } from "../../../adapters/storage.ts";
import {
  claimable,
  claimOne,
  deliver,
  heads,
  park,
  TERMS,
} from "../../../lib/testing/contract/deliveries.ts";
import { delivery, ManualClock, type Stage, store } from "../../../lib/testing/contract/stage.ts";
import { DatabaseFiles } from "./database-files.ts";

const files = new DatabaseFiles();
beforeAll(() => files.create());
afterAll(() => files.remove());

/** Every statement that a storage on this file prepares. */
async function statements(path: string): Promise<string[]> {
  const prepared = jest.spyOn(DatabaseSync.prototype, "prepare");
  try {
    await (await openSqlite({ path, clock: new ManualClock() })).close();
    return prepared.mock.calls.map(([sql]) => sql);
  } finally {
    prepared.mockRestore();
  }
}

/** Does to the file what no code of ours does. */
function damage(sql: string): void {
  const database = new DatabaseSync(files.path);
  database.exec(sql);
  database.close();
}

describe("lanes in SQLite", () => {
  let storage: Storage;
  let stage: Stage;
  beforeEach(async () => {
    const clock = new ManualClock();
    storage = await openSqlite({ path: files.next(), clock });
    stage = { storage, clock };
  });

  it("are put right from the deliveries, whatever became of their records", async () => {
    await store(stage, ...["a1", "a2", "b1", "c1"].map((id) => delivery(id, id.slice(0, 1))));
    await park(stage);
    for (const harm of [
      "DELETE FROM lanes",
      "UPDATE lanes SET due_at = NULL",
      "UPDATE lanes SET due_at = due_at + 1e9, failed_at = 5",
      "UPDATE lanes SET last_sequence = 0",
    ]) {
      damage(harm);
      await expect(storage.deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 3 });
      await expect(storage.deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 0 });
      expect((await heads(stage)).map(({ id }) => id).toSorted()).toEqual(["a2", "b1", "c1"]);
    }
    await store(stage, delivery("a3", "a"));
    await expect(claimable(stage)).resolves.toEqual(["a2", "b1", "c1"]);
    await storage.close();
  });

  it("that were begun anew are joined, in the order in which the deliveries were stored", async () => {
    await store(stage, delivery("a1", "a"), delivery("a2", "a"), delivery("b1", "b"));
    await park(stage);
    damage("DELETE FROM lanes WHERE sub = 'a'");
    await store(stage, delivery("a3", "a"), delivery("a4", "a"));
    await expect(storage.deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 1 });
    await expect(storage.deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 0 });
    await storage.deliveries.redrive(["a1"], { passable: [] });
    const sequences = (await storage.deliveries.list({ limit: 9, sub: "a" })).map(({ id, sequence }) => [
      id,
      sequence,
    ]);
    expect(sequences).toEqual([
      ["a1", 1],
      ["a2", 2],
      ["a3", 3],
      ["a4", 4],
    ]);
    const sent: string[] = [];
    for (let times = 0; times < 5; times += 1) sent.push(await deliver(stage));
    expect(sent.filter((id) => id.startsWith("a"))).toEqual(["a1", "a2", "a3", "a4"]);
    await storage.close();
  });

  it("whose number another lane has get one of their own", async () => {
    await store(stage, delivery("a1", "a"), delivery("b1", "b"));
    damage("DELETE FROM lanes WHERE sub = 'a'; UPDATE lanes SET id = 1");
    await expect(storage.deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 2 });
    await expect(storage.deliveries.reconcile({ limit: 9 })).resolves.toEqual({ repaired: 0 });
    await store(stage, delivery("a2", "a"), delivery("b2", "b"));
    const sent: string[] = [];
    for (let times = 0; times < 4; times += 1) sent.push(await deliver(stage));
    expect(sent.filter((id) => id.startsWith("a"))).toEqual(["a1", "a2"]);
    expect(sent.filter((id) => id.startsWith("b"))).toEqual(["b1", "b2"]);
    await storage.close();
  });

  it("that seem due with nothing to send are put right by the look at them", async () => {
    await store(stage, delivery("a1", "a"), delivery("b1", "b"));
    await deliver(stage);
    const claim = await claimOne(stage);
    await storage.deliveries.finish(claim, { kind: "retry", after: 60_000 });
    damage("UPDATE lanes SET due_at = 5");
    await expect(claimable(stage)).resolves.toEqual([]);
    await expect(storage.deliveries.dueReceivers()).resolves.toEqual([
      { receiver: "service:1", dueAt: stage.clock.now() + 60_000 },
    ]);
    await storage.close();
  });

  it("of one receiver are claimed one after the other in the steps that record results", async () => {
    await store(stage, ...["a1", "b1", "c1"].map((id) => delivery(id, id.slice(0, 1))));
    const sent: string[] = [];
    let claim: Claim | undefined = await claimOne(stage);
    while (claim !== undefined) {
      sent.push(claim.delivery.id);
      ({ next: claim } = await storage.deliveries.finish(
        claim,
        { kind: "delivered" },
        { lease: TERMS, onward: true },
      ));
    }
    expect(sent.toSorted()).toEqual(["a1", "b1", "c1"]);
    await storage.close();
  });

  it("are found and sorted through an index by every statement that looks at many", async () => {
    await storage.close();
    const all = (await statements(files.path)).filter((sql) => /\b(?:lanes|deliveries|attempts)\b/.test(sql));
    expect(all.length).toBeGreaterThan(30);
    const database = new DatabaseSync(files.path);
    const scans = all.filter((sql) =>
      database
        .prepare(`EXPLAIN QUERY PLAN ${sql}`)
        .all()
        .some(({ detail }) =>
          /TEMP B-TREE|^SCAN (?!names|CONSTANT|\(subquery)(?!.*USING (?:COVERING )?INDEX)/.test(
            String(detail),
          ),
        ),
    );
    database.close();
    expect(scans.filter((sql) => !sql.startsWith("CREATE"))).toEqual([]);
  });
});
