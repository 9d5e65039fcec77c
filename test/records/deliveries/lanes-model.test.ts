import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import type { Claim, Outcome } from "../../../records/deliveries/delivery.ts";
import { openStorage } from "../../../records/storage.ts";
import type { Storage } from "../../../records/storage.ts";
import { delivery, ManualClock, type Stage, store } from "../rules/stage.ts";
import { rounds } from "../../rounds.ts";
import { attempt, laneCommands, LANES, lease, type Model, type Real, SPAN } from "./lane-commands.ts";
import { LaneModel } from "./lane-model.ts";

const MEMORY = { storage: "sqlite::memory:", artifacts: "sqlite::memory:" };

async function openStage(): Promise<Stage> {
  const clock = new ManualClock();
  return { clock, storage: await openStorage({ ...MEMORY, clock }) };
}

/** Nothing is left behind: after all leases have ended, one worker delivers all that waits, in order. */
async function drain(model: Model, { storage, clock }: Real): Promise<void> {
  clock.advance(10 * SPAN);
  await storage.deliveries.changeReceiver("r1", (state) => ({ ...state, paused: false }));
  await expect(storage.deliveries.reconcile({ limit: 100 })).resolves.toEqual({ repaired: 0 });
  const sent: Claim["delivery"][] = [];
  for (const name of ["r1", "r2"]) {
    for (;;) {
      const [claim] = await storage.deliveries.claimDue(name, 1, lease("last"));
      if (claim === undefined) break;
      sent.push(claim.delivery);
      await storage.deliveries.finish(claim, { kind: "delivered" });
    }
  }
  for (const lane of LANES) {
    const waiting = model.lanes[lane]?.entries.filter(({ state }) => state === "waiting");
    const sentInLane = sent.filter(({ receiver, sub }) => `${receiver}/${sub}` === lane);
    expect(sentInLane.map(({ id }) => id)).toEqual(waiting?.map(({ id }) => id));
  }
  await expect(storage.deliveries.dueReceivers()).resolves.toEqual([]);
  await expect(storage.deliveries.list({ state: "waiting", limit: 9 })).resolves.toEqual([]);
}

it("lanes follow the model, for any order of actions of workers and operators, and crashes [D-NOTIFY-16, D-NOTIFY-17]", async () => {
  await fc.assert(
    fc.asyncProperty(laneCommands, async (run) => {
      const stage = await openStage();
      const real: Real = { ...stage, claims: [] };
      const lanes = Object.fromEntries(LANES.map((lane) => [lane, new LaneModel()]));
      const model: Model = { lanes, paused: new Set(), now: stage.clock.now(), stored: 0 };
      try {
        await fc.asyncModelRun(() => ({ model, real }), run);
        await drain(model, real);
      } finally {
        await stage.storage.close();
      }
    }),
    { numRuns: rounds(80, 300) },
  );
});

/** A worker as a list of steps; it is killed after so many of them. */
class Steps {
  readonly #deliveries: Storage["deliveries"];
  readonly #posted: string[];
  readonly #outcomes: Outcome[];
  readonly #owner: string;
  #left: number;
  #claim: Claim | undefined;
  #posting = false;

  constructor(
    storage: Storage,
    owner: string,
    posted: string[],
    outcomes: readonly Outcome[],
    lives: number,
  ) {
    this.#deliveries = storage.deliveries;
    this.#owner = owner;
    this.#posted = posted;
    this.#outcomes = [...outcomes];
    this.#left = lives;
  }

  /** One step: claim, POST, record; in between anything may happen. @returns Whether there was one to take. */
  async step(): Promise<boolean> {
    if (this.#left === 0) return false;
    this.#left -= 1;
    if (this.#claim === undefined) {
      [this.#claim] = await this.#deliveries.claimDue("r", 1, lease(this.#owner));
      return this.#claim !== undefined;
    } else if (!this.#posting) {
      this.#posted.push(this.#claim.delivery.id);
      this.#posting = true;
    } else {
      const outcome = this.#outcomes.shift() ?? { kind: "delivered" };
      const { next } = await this.#deliveries.finish(this.#claim, outcome, {
        attempt,
        lease: lease(this.#owner),
      });
      this.#claim = next;
      this.#posting = false;
    }
    return true;
  }
}

/** Every order of so many steps of each actor. */
function* orders(left: readonly number[]): Generator<number[]> {
  if (left.every((count) => count === 0)) yield [];
  for (const [actor, count] of left.entries()) {
    if (count === 0) continue;
    for (const rest of orders(left.with(actor, count - 1))) yield [actor, ...rest];
  }
}

describe("every interleaving of two workers, one of which is killed at each step, and of new deliveries", () => {
  const cases: readonly (readonly [name: string, outcome: Outcome])[] = [
    ["succeeds", { kind: "delivered" }],
    ["fails", { kind: "retry", after: 1000 }],
    ["is parked", { kind: "parked", reason: "attempts_used_up" }],
  ];

  it.each(cases)(
    "leaves no delivery behind and keeps the order when the first attempt %s",
    async (_result, outcome) => {
      const { clock, storage } = await openStage();
      let run = 0;
      for (const lives of [1, 2, 3]) {
        for (const order of orders([lives, rounds(3, 4), 2])) {
          run += 1;
          const posted: string[] = [];
          const stage = { clock, storage };
          const killed = new Steps(storage, "killed", posted, [outcome], lives);
          const other = new Steps(storage, "other", posted, [outcome], Infinity);
          const ids = [1, 2, 3].map((number) => `${run}-${number}`);
          const add = async (): Promise<void> => {
            const id = waiting.shift();
            if (id !== undefined) await store(stage, delivery(id, "a", "r"));
          };
          const waiting = [...ids];
          await add();
          const actors = [() => killed.step(), () => other.step(), add];
          for (const actor of order) await actors[actor]?.();
          for (let waits = 0; waits < 2; waits += 1) {
            clock.advance(2 * SPAN);
            while (await other.step());
          }

          const [left] = await storage.deliveries.counts();
          expect([order, left?.waiting ?? 0]).toEqual([order, 0]);
          // First arrivals are in order; a parked one lets the next go.
          expect([...new Set(posted)]).toEqual(ids);
        }
      }
      expect(run).toBeGreaterThan(700);
      await storage.close();
    },
  );
});
