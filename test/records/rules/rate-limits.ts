/** The contract of rate limiters. */
import { setTimeout as pause } from "node:timers/promises";
import { KINDS } from "../../../records/all-kinds.ts";
import { createRateLimits, RATE_LIMIT, type RateLimits, type Taken } from "../../../records/rate-limits.ts";
import { Records } from "../../../records/records.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import { hostileKeys, type Stage } from "./stage.ts";

/** The calls for one limit, by the key of a bucket. */
interface RateLimiter {
  take(key: string): Promise<Taken>;
  look(key: string): Promise<Taken>;
  giveBack(key: string): Promise<void>;
}

async function takes(limiter: RateLimiter, times: number): Promise<boolean[]> {
  const taken = await Promise.all(Array.from({ length: times }, () => limiter.take("k")));
  return taken.map(({ allowed }) => allowed);
}

/** @param stage the store of the running case. */
export function describeRateLimits(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  function limiter(
    points: number,
    seconds = 900,
    limit = "signIn.account",
    limits: RateLimits = stage.storage.rateLimits,
  ): RateLimiter {
    const bucket = (key: string) => ({ limit, points, seconds, key });
    return {
      async take(key) {
        const [taken] = await limits.take([bucket(key)]);
        return taken!;
      },
      async look(key) {
        const [looked] = await limits.look([bucket(key)]);
        return looked!;
      },
      giveBack: (key) => limits.giveBack([bucket(key)]),
    };
  }

  it("are shared by all processes with the storage", async () => {
    const { store } = stage.storage.records;
    const processes = [1, 2].map(() =>
      limiter(10, 900, "shared", createRateLimits(new Records(store, stage.clock, KINDS), stage.clock)),
    );
    // One on each process, in turn.
    const taken = await Promise.all(Array.from({ length: 40 }, (_, at) => processes[at % 2]!.take("k")));
    expect(taken.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  it("keep nothing for a refused attempt, and nothing once a window has ended", async () => {
    const { store } = stage.storage.records;
    const limits = createRateLimits(new Records(store, stage.clock, KINDS), stage.clock);
    const short = limiter(1, 60, "short", limits);
    const stored = async () => (await store.scan(RATE_LIMIT.name, undefined, 1_000)).records;
    await Promise.all(Array.from({ length: 20 }, (_, key) => short.take(String(key))));
    const before = await stored();
    expect(before).toHaveLength(20);
    const again = await Promise.all(Array.from({ length: 20 }, (_, key) => short.take(String(key))));
    expect(again.some(({ allowed }) => allowed)).toBe(false);
    expect(await stored()).toEqual(before);
    await limiter(2, 60, "returned", limits).take("k");
    await limiter(2, 60, "returned", limits).giveBack("k");
    expect(await stored()).toHaveLength(20);
    stage.clock.advance(60_000);
    expect(await stored()).toEqual([]);
    let swept = 0;
    for (let round = 0; round < 10 && swept < 20; round += 1)
      swept += await store.sweep(1_000, stage.clock.now());
    expect(swept).toBeGreaterThan(19);
  });

  it("take a point from each bucket, or from none", async () => {
    const { rateLimits } = stage.storage;
    const one = { limit: "one", points: 1, seconds: 900, key: "k" };
    const three = { limit: "three", points: 3, seconds: 900, key: "k" };
    await rateLimits.take([one, three]);
    const refused = await rateLimits.take([one, three]);
    expect(refused.map(({ allowed }) => allowed)).toEqual([false, true]);
    expect(await rateLimits.take([three])).toMatchObject([{ allowed: true }]);
    expect(await rateLimits.take([three])).toMatchObject([{ allowed: true }]);
    expect(await rateLimits.take([three])).toMatchObject([{ allowed: false }]);
    await rateLimits.giveBack([one, three]);
    expect(await rateLimits.take([one, three])).toMatchObject([{ allowed: true }, { allowed: true }]);
  });

  it("end a window earlier when the limit is shortened, and apply the number of points of now", async () => {
    await takes(limiter(3, 900, "changed"), 3);
    const { allowed, retryAfter } = await limiter(3, 60, "changed").take("k");
    expect([allowed, retryAfter <= 60]).toEqual([false, true]);
    await expect(limiter(4, 900, "changed").take("k")).resolves.toMatchObject({ allowed: true });
  });

  it("allow exactly as many of 100 parallel attempts as there are points", async () => {
    const ten = limiter(10);
    const taken = await takes(ten, 100);
    expect(taken.filter((allowed) => allowed)).toHaveLength(10);
    expect(taken.slice(0, 10).every((allowed) => allowed)).toBe(true);
    await expect(ten.take("other")).resolves.toEqual({
      allowed: true,
      retryAfter: 0,
      used: 1,
      endsIn: 900,
    });
  });

  it("take and return points in the order of calls, so that successes never block", async () => {
    const one = limiter(1);
    const taken: Promise<{ allowed: boolean }>[] = [];
    const given: Promise<void>[] = [];
    for (let round = 0; round < 1000; round += 1) {
      taken.push(one.take("k"));
      // Sometimes the two calls are in different iterations of the event loop.
      if (round % 100 === 0) await pause(0);
      given.push(one.giveBack("k"));
    }
    expect((await Promise.all(taken)).every(({ allowed }) => allowed)).toBe(true);
    await Promise.all(given);
    await expect(takes(one, 2)).resolves.toEqual([true, false]);
  });

  it("don't count refused attempts, and return the point of a success", async () => {
    const two = limiter(2);
    await expect(takes(two, 4)).resolves.toEqual([true, true, false, false]);
    await two.giveBack("k");
    await expect(takes(two, 2)).resolves.toEqual([true, false]);
  });

  it("never exceed their points, whatever is returned", async () => {
    const two = limiter(2);
    await Promise.all([two.giveBack("k"), two.giveBack("k")]);
    await expect(takes(two, 3)).resolves.toEqual([true, true, false]);
  });

  it("refuse until the end of the first attempt's window, and say for how many seconds", async () => {
    const two = limiter(2, 2);
    await takes(two, 2);
    const { allowed, retryAfter } = await two.take("k");
    expect(allowed).toBe(false);
    expect([1, 2]).toContain(retryAfter);
    // The points follow the storage's clock or the server's.
    while (!(await two.take("k")).allowed) {
      stage.clock.advance(50);
      await pause(50);
    }
    await expect(takes(two, 2)).resolves.toEqual([true, false]);
  });

  it("look for a point without taking it, in order with earlier calls", async () => {
    const two = limiter(2);
    const looks = async (): Promise<boolean> => (await two.look("k")).allowed;
    await expect(Promise.all([looks(), looks(), looks()])).resolves.toEqual([true, true, true]);
    const [, first, , second] = await Promise.all([two.take("k"), looks(), two.take("k"), looks()]);
    expect([first, second]).toEqual([true, false]);
    const { allowed, retryAfter } = await two.look("k");
    expect([allowed, retryAfter > 0, retryAfter <= 900]).toEqual([false, true, true]);
    await two.giveBack("k");
    await expect(looks()).resolves.toBe(true);
    await expect(takes(two, 2)).resolves.toEqual([true, false]);
  });

  it("separate names and similar keys", async () => {
    const [one, two] = [limiter(1, 60, "one"), limiter(1, 60, "two")];
    for (const each of [one, two]) {
      const taken = await Promise.all(hostileKeys.map((key) => each.take(key)));
      expect(taken.every(({ allowed }) => allowed)).toBe(true);
    }
    await expect(one.take("a")).resolves.toMatchObject({ allowed: false });
  });
}
