import { describe, expect, it } from "@jest/globals";
import { memoryRateLimits } from "../../adapters/rate-limits.ts";
import { ManualClock } from "../records/rules/stage.ts";

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

  it("continue when the limiter of a name is made again, by the limit that it has now [D-LIMIT-3]", async () => {
    const clock = new ManualClock();
    const create = memoryRateLimits(clock);
    const first = create("mail", { points: 2, seconds: 100 });
    await first.take("k");
    await first.take("k");
    const second = create("mail", { points: 3, seconds: 10 });
    await expect(create("other", { points: 2, seconds: 10 }).look("k")).resolves.toMatchObject({
      allowed: true,
    });
    await second.take("k");
    // A window that was open ends no later than a new one would.
    await expect(second.take("k")).resolves.toEqual({ allowed: false, retryAfter: 10 });
    // Requests that the old one still answers count too.
    await first.giveBack("k");
    await expect(second.take("k")).resolves.toMatchObject({ allowed: true });
    await second.take("later");
    clock.advance(10_000);
    for (const key of ["k", "later"])
      await expect(second.take(key)).resolves.toMatchObject({ allowed: true });
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

  it("keep 20,000 keys, however many there are, and every lock-out [D-LIMIT-3]", async () => {
    const { limiter: three } = limiter(3);
    const taken = async (key: string) => {
      const allowed = await Promise.all([three.take(key), three.take(key), three.take(key)]);
      return allowed.filter((each) => !each.allowed).length;
    };
    for (let point = 0; point < 3; point += 1) await three.take("full");
    await three.take("two");
    await three.take("two");
    for (let number = 0; number < 200_000; number += 1) await three.take(`one ${number}`);
    await expect(three.look("full")).resolves.toMatchObject({ allowed: false });
    // What a key has left says whether it was kept. Those that stood for longest went first.
    await expect(taken("two")).resolves.toBe(2);
    await expect(taken("one 199999")).resolves.toBe(1);
    await expect(taken(`one ${200_000 - 19_998}`)).resolves.toBe(1);
    await expect(taken(`one ${200_000 - 19_998 - 1}`)).resolves.toBe(0);
  });

  it("forget windows that have ended before any other [D-LIMIT-3]", async () => {
    const { clock, limiter: two } = limiter(2, 10);
    for (let number = 0; number < 10_000; number += 1) {
      await two.take(`old ${number}`);
      await two.take(`old ${number}`);
    }
    clock.advance(5_000);
    for (let number = 0; number < 10_000; number += 1) await two.take(`young ${number}`);
    clock.advance(5_000);
    // There is room for as many again: all young ones are still there.
    for (let number = 0; number < 10_000; number += 1) await two.take(`new ${number}`);
    for (const key of ["young 0", "young 9999"]) {
      await two.take(key);
      await expect(two.look(key)).resolves.toMatchObject({ allowed: false });
    }
  });

  it("keep lock-outs also when there is nothing else left to forget [D-LIMIT-3]", async () => {
    const { clock, limiter: one } = limiter(1, 10);
    for (let number = 0; number < 20_000; number += 1) await one.take(`full ${number}`);
    for (let number = 0; number < 1_000; number += 1) {
      await expect(one.take(`new ${number}`)).resolves.toMatchObject({ allowed: true });
    }
    for (const number of [0, 1, 19_999]) {
      await expect(one.take(`full ${number}`)).resolves.toEqual({ allowed: false, retryAfter: 10 });
    }
    // A success makes room.
    await one.giveBack("full 7");
    await one.take("new");
    await expect(one.take("new")).resolves.toMatchObject({ allowed: false });
    clock.advance(10_000);
    await expect(one.take("full 0")).resolves.toMatchObject({ allowed: true });
  });
});
