/** Which claims and results wait for the disk, and which need not: over a disk that answers when it is told to. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "@jest/globals";
import type { Claim, DeliveryStore, Outcome } from "../../../adapters/deliveries.ts";
import { type Connection, connect } from "../../../adapters/sqlite/connection.ts";
import { createDeliveryPlanner, createDeliveryStore } from "../../../adapters/sqlite/deliveries.ts";
import { createDurability } from "../../../adapters/sqlite/durability.ts";
import { TERMS } from "../../../lib/testing/contract/deliveries.ts";
import { delivery, ManualClock } from "../../../lib/testing/contract/stage.ts";
import { DatabaseFiles } from "./database-files.ts";

const files = new DatabaseFiles();
beforeAll(() => files.create());
afterAll(() => files.remove());

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

interface Gate {
  readonly waiting: PromiseWithResolvers<void>[];
  slow: boolean;
}

/** A process with the file open; its disk takes everything at once until it is `slow`. */
class Process {
  readonly connection: Connection;
  readonly deliveries: DeliveryStore;
  readonly #gate: Gate;

  private constructor(connection: Connection, gate: Gate) {
    this.connection = connection;
    this.deliveries = createDeliveryStore(connection);
    this.#gate = gate;
  }

  static async open(): Promise<Process> {
    const gate: Gate = { waiting: [], slow: false };
    const flush = (): Promise<void> => {
      if (!gate.slow) return Promise.resolve();
      const answer = Promise.withResolvers<void>();
      gate.waiting.push(answer);
      return answer.promise;
    };
    const durability = { ...createDurability(flush), close: () => Promise.resolve() };
    return new Process(await connect(files.path, new ManualClock(), { durability }), gate);
  }

  slow(): void {
    this.#gate.slow = true;
  }

  async answer(): Promise<void> {
    this.#gate.slow = false;
    for (const each of this.#gate.waiting.splice(0)) each.resolve();
    await turn();
  }

  async store(...ids: string[]): Promise<void> {
    const planner = createDeliveryPlanner(this.connection);
    await this.connection.write(planner(ids.map((id) => delivery(id, id.slice(0, 1)))));
  }

  claim(limit = 1): Promise<Claim[]> {
    return this.deliveries.claimDue("service:1", limit, TERMS);
  }

  /** Claims the head of the only lane that is due. */
  async claimOne(): Promise<Claim> {
    const [claim] = await this.claim();
    if (claim === undefined) throw new Error("nothing is due");
    return claim;
  }
}

async function isTold(result: Promise<unknown>): Promise<boolean> {
  for (let turns = 0; turns < 4; turns += 1) await turn();
  return Promise.race([result.then(() => true), turn().then(() => false)]);
}

const DELIVERED: Outcome = { kind: "delivered" };
const PARKED: Outcome = { kind: "parked", reason: "attempts_used_up" };

let one: Process;
let other: Process;
beforeEach(async () => {
  files.next();
  one = await Process.open();
  other = await Process.open();
});
afterEach(async () => {
  await Promise.all([one.answer(), other.answer()]);
  await Promise.all([one.connection.close(), other.connection.close()]);
});

it("gives out nothing that a loss of power may undo, though another process stored it", async () => {
  one.slow();
  other.slow();
  const stored = one.store("a1");
  expect(await isTold(stored)).toBe(false);
  const claims = other.claim();
  expect(await isTold(claims)).toBe(false);
  await other.answer();
  await expect(claims).resolves.toMatchObject([{ delivery: { id: "a1" } }]);
});

it("gives out at once what was on the disk before, and what it has waited for once", async () => {
  await one.store("a1", "b1", "c1");
  other.slow();
  const first = other.claim();
  expect(await isTold(first)).toBe(false);
  await other.answer();
  other.slow();
  expect(await isTold(other.claim(2))).toBe(true);
  await one.store("d1");
  expect(await isTold(other.claim())).toBe(false);
});

it("does not wait with a success, and goes on", async () => {
  await one.store("a1", "a2", "b1");
  const claim = (await one.claim(2)).find(({ delivery: { id } }) => id === "a1");
  one.slow();
  const finished = one.deliveries.finish(claim as Claim, DELIVERED, { lease: TERMS });
  expect(await isTold(finished)).toBe(true);
  await expect(finished).resolves.toMatchObject({ recorded: true, next: { delivery: { id: "a2" } } });
});

it.each<[string, Outcome]>([
  ["parked", PARKED],
  ["to be tried again", { kind: "retry", after: 5000 }],
  ["handed back", { kind: "kept" }],
])("tells that something is %s when it lasts", async (_what, outcome) => {
  await one.store("a1");
  const claim = await one.claimOne();
  one.slow();
  expect(await isTold(one.deliveries.finish(claim, outcome))).toBe(false);
});

it("does not overtake what may wait again after a loss of power", async () => {
  await one.store("a1", "a2", "a3", "b1");
  // From here on the other process knows that all of them are on the disk.
  await other.deliveries.claimLane({ receiver: "service:1", sub: "b" }, TERMS);
  const first = await one.claimOne();
  other.slow();
  await one.deliveries.finish(first, PARKED);
  // Whether that one is parked on the disk is not known there.
  const second = other.claim();
  expect(await isTold(second)).toBe(false);
  await other.answer();
  const [claim] = await second;
  other.slow();
  const { next } = await other.deliveries.finish(claim as Claim, DELIVERED, { lease: TERMS });
  expect(next).toMatchObject({ delivery: { id: "a3" } });
});

it("waits where the next of a lane has to, though the result need not", async () => {
  await one.store("a1");
  const claim = await one.claimOne();
  one.slow();
  void one.store("a2");
  const finished = one.deliveries.finish(claim, DELIVERED, { lease: TERMS });
  expect(await isTold(finished)).toBe(false);
  await one.answer();
  await expect(finished).resolves.toMatchObject({ next: { delivery: { id: "a2" } } });
});
