import { describe, expect, it } from "@jest/globals";
import { memoryRateLimits } from "../../adapters/rate-limits-memory.ts";
import { ManualClock } from "../../lib/testing/contract/stage.ts";

function limiter(points = 10, seconds = 900) {
  const clock = new ManualClock();
  return { clock, limiter: memoryRateLimits(clock)("signIn.account", { points, seconds }) };
}

describe("rate limits in memory", () => {
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

  it("follow the system's clock when they are given none", async () => {
    const one = memoryRateLimits()("one", { points: 1, seconds: 3600 });
    await one.take("k");
    await expect(one.take("k")).resolves.toEqual({ allowed: false, retryAfter: 3600 });
  });
});
