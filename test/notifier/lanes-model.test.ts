import { describe, expect, it } from "@jest/globals";
import type { Claim, Outcome } from "../../lib/deliveries/delivery.ts";
import { openStorage } from "../../lib/storage.ts";
import type { Storage } from "../../lib/storage.ts";
import { delivery, ManualClock, type Stage, store } from "../lib/rules/stage.ts";
import { attempt, lease, SPAN } from "./lane-commands.ts";
import { lanesDoWhatTheModelSays } from "./lane-property.ts";

const MEMORY = { storage: "sqlite::memory:", artifacts: "sqlite::memory:" };

async function openStage(): Promise<Stage> {
  const clock = new ManualClock();
  return { clock, storage: await openStorage({ ...MEMORY, clock }) };
}

it("lanes do what the model says, whatever workers, operators and crashes do in whatever order [D-NOTIFY-16, D-NOTIFY-17]", async () => {
  await lanesDoWhatTheModelSays(openStage, { numRuns: 300 });
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

  /** One step: claim, POST, record; in between anything may happen. */
  async step(): Promise<void> {
    if (this.#left === 0) return;
    this.#left -= 1;
    if (this.#claim === undefined) {
      [this.#claim] = await this.#deliveries.claimDue("r", 1, lease(this.#owner));
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

describe("every order of two workers, one of which is killed at each step, and of what adds deliveries", () => {
  const cases: readonly (readonly [name: string, outcome: Outcome])[] = [
    ["succeeds", { kind: "delivered" }],
    ["fails", { kind: "retry", after: 1000 }],
    ["is parked", { kind: "parked", reason: "attempts_used_up" }],
  ];

  it.each(cases)(
    "strands nothing and keeps the order when the first attempt %s",
    async (_result, outcome) => {
      const { clock, storage } = await openStage();
      let run = 0;
      for (const lives of [1, 2, 3]) {
        for (const order of orders([lives, 4, 2])) {
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
          clock.advance(2 * SPAN);
          for (let step = 0; step < 12; step += 1) await other.step();
          clock.advance(2 * SPAN);
          for (let step = 0; step < 12; step += 1) await other.step();

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
