import { describe, expect, it } from "@jest/globals";
import type { StorageUnavailable } from "../../core/errors.ts";
import { FairDoor, FairQueue, type FairQueueOptions } from "../../core/fair-queue.ts";

/** A queue, and the names of what has started and been refused, in order. */
function stage(options: Partial<FairQueueOptions> = {}) {
  const queue = new FairQueue({
    capacity: 1,
    maxWaiting: 100,
    maxWaitMs: 60_000,
    refusal: "too much at once",
    ...options,
  });
  const started: string[] = [];
  const refused: string[] = [];
  const ends: (() => void)[] = [];
  /** The first letter is the party. */
  async function enter(name: string): Promise<void> {
    try {
      const leave = await queue.enter(name === "background" ? undefined : name.slice(0, 1));
      started.push(name);
      ends.push(leave);
    } catch (error) {
      refused.push(`${name} ${(error as StorageUnavailable).code}`);
    }
  }
  /** Ends everything that runs, one after the other, until nothing runs. */
  async function drain(): Promise<void> {
    await new Promise(setImmediate);
    for (let end = ends.shift(); end !== undefined; end = ends.shift()) {
      end();
      await new Promise(setImmediate);
    }
  }
  return { enter, drain, started, refused, running: () => ends.length };
}

describe("a fair door", () => {
  it("refuses one more of the party that has most inside, once enough are [D-HASH-1]", () => {
    const door = new FairDoor(4, "too much at once");
    const refusal = expect.objectContaining({ code: "storage_unavailable" });
    const inside = ["a", "a", "a", "b"].map((party) => door.enter(party));
    expect(() => door.enter("a")).toThrow(refusal);
    inside.push(door.enter("b"), door.enter("b"));
    // Of two that have as much, each is refused.
    for (const party of ["a", "b"]) expect(() => door.enter(party)).toThrow(refusal);
    inside.push(door.enter("c"));
    for (const leave of inside) leave();
    for (const party of ["a", "a", "a", "a"]) door.enter(party);
    expect(() => door.enter("a")).toThrow(refusal);
  });
});

describe("a fair queue", () => {
  it("runs as many as it may, and lets parties take turns [D-HASH-1]", async () => {
    const { enter, drain, started, running } = stage({ capacity: 2 });
    for (const name of ["a1", "a2", "a3", "a4", "a5", "b1", "c1", "b2"]) void enter(name);
    await new Promise(setImmediate);
    expect(running()).toBe(2);
    await drain();
    expect(started).toEqual(["a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"]);
  });

  it("refuses the newest of the party that has most waiting, when too much waits [D-HASH-1]", async () => {
    const { enter, drain, started, refused } = stage({ maxWaiting: 4 });
    for (const name of ["a1", "a2", "a3", "a4", "a5", "a6", "b1", "c1", "c2"]) void enter(name);
    await new Promise(setImmediate);
    expect(refused).toEqual(["a6", "a5", "a4", "c2"].map((name) => `${name} storage_unavailable`));
    await drain();
    expect(started).toEqual(["a1", "a2", "b1", "c1", "a3"]);
  });

  it("refuses the newcomer when every party has as much waiting", async () => {
    const { enter, drain, started, refused } = stage({ maxWaiting: 2 });
    for (const name of ["a1", "b1", "c1", "d1"]) void enter(name);
    await drain();
    expect([started, refused]).toEqual([["a1", "b1", "c1"], ["d1 storage_unavailable"]]);
  });

  it("starts nothing that has waited too long, and background work last and always", async () => {
    const { enter, drain, started, refused } = stage({ maxWaitMs: 20 });
    void enter("a1");
    void enter("background");
    for (const name of ["a2", "b1"]) void enter(name);
    const until = performance.now() + 30;
    while (performance.now() < until) await new Promise(setImmediate);
    void enter("c1");
    await drain();
    expect(started).toEqual(["a1", "c1", "background"]);
    expect(refused).toEqual(["a2 storage_unavailable", "b1 storage_unavailable"]);
    void enter("d1");
    await drain();
    expect(started.at(-1)).toBe("d1");
  });
});
