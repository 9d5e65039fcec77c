import { describe, expect, it } from "@jest/globals";
import { memoryRateLimits } from "../../adapters/rate-limits-memory.ts";
import { ManualClock } from "./contract/stage.ts";

function limiter(points = 10, seconds = 900) {
  const clock = new ManualClock();
  return { clock, limiter: memoryRateLimits(clock)("signIn.account", { points, seconds }) };
}

describe("rate limits in memory", () => {
  it("allow exactly as many of 100 parallel takes as there are points", async () => {
    const { limiter: ten } = limiter();
    const taken = await Promise.all(Array.from({ length: 100 }, () => ten.take("k")));
    expect(taken.filter(({ allowed }) => allowed)).toHaveLength(10);
    expect(taken.slice(0, 10).every(({ allowed }) => allowed)).toBe(true);
    await expect(ten.take("other")).resolves.toMatchObject({ allowed: true });
  });

  it("take and give back at the moment of the call, so that successes never block", async () => {
    const { limiter: one } = limiter(1);
    const taken: Promise<{ allowed: boolean }>[] = [];
    const given: Promise<void>[] = [];
    for (let round = 0; round < 1000; round += 1) {
      taken.push(one.take("k"));
      given.push(one.giveBack("k"));
    }
    expect((await Promise.all(taken)).every(({ allowed }) => allowed)).toBe(true);
    await Promise.all(given);
    await expect(one.take("k")).resolves.toMatchObject({ allowed: true });
    await expect(one.take("k")).resolves.toMatchObject({ allowed: false });
  });

  it("refuse until the window of the first take ends, and say for how many whole seconds", async () => {
    const { clock, limiter: two } = limiter(2, 10);
    await two.take("k");
    clock.advance(4000);
    await two.take("k");
    await expect(two.take("k")).resolves.toEqual({ allowed: false, retryAfter: 6 });
    clock.advance(5001);
    await expect(two.take("k")).resolves.toEqual({ allowed: false, retryAfter: 1 });
    clock.advance(998);
    await expect(two.take("k")).resolves.toEqual({ allowed: false, retryAfter: 1 });
    clock.advance(1);
    await expect(two.take("k")).resolves.toEqual({ allowed: true, retryAfter: 0 });
  });

  it("don't count what they refuse: the point of a success is there again", async () => {
    const { limiter: two } = limiter(2);
    await two.take("k");
    const parallel = await Promise.all([two.take("k"), two.take("k"), two.take("k")]);
    expect(parallel.map(({ allowed }) => allowed)).toEqual([true, false, false]);
    await two.giveBack("k");
    await expect(two.take("k")).resolves.toMatchObject({ allowed: true });
    await expect(two.take("k")).resolves.toMatchObject({ allowed: false });
  });

  it("never have more than all points, whatever is given back", async () => {
    const { clock, limiter: two } = limiter(2, 10);
    const allowed = async () =>
      (await Promise.all([two.take("k"), two.take("k"), two.take("k")])).map((one) => one.allowed);
    await Promise.all([two.giveBack("k"), two.giveBack("k")]);
    await expect(allowed()).resolves.toEqual([true, true, false]);
    // A point of a window that has ended does not make the next one larger.
    clock.advance(10_000);
    await two.giveBack("k");
    await expect(allowed()).resolves.toEqual([true, true, false]);
  });

  it("keep the points of two names, and of two keys that look alike, apart", async () => {
    const create = memoryRateLimits(new ManualClock());
    const limit = { points: 1, seconds: 60 };
    const [one, two] = [create("one", limit), create("two", limit)];
    for (const key of ["", "a", "__proto__", "a\0", "\ud800", "\ufffd"]) {
      await expect(one.take(key)).resolves.toMatchObject({ allowed: true });
      await expect(two.take(key)).resolves.toMatchObject({ allowed: true });
    }
    await expect(one.take("a")).resolves.toMatchObject({ allowed: false });
  });

  it("follow the system's clock when they are given none", async () => {
    const one = memoryRateLimits()("one", { points: 1, seconds: 3600 });
    await one.take("k");
    await expect(one.take("k")).resolves.toEqual({ allowed: false, retryAfter: 3600 });
  });
});
