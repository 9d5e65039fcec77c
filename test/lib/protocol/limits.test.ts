import { beforeEach, describe, expect, it } from "@jest/globals";
import { memoryRateLimits } from "../../../adapters/rate-limits-memory.ts";
import type { RateLimits } from "../../../config/configuration.ts";
import { type AttemptLimits, callerNetwork, createAttemptLimits } from "../../../lib/protocol/limits.ts";
import { ManualClock } from "../../../lib/testing/contract/stage.ts";

const points = (count: number): { points: number; seconds: number } => ({ points: count, seconds: 900 });

const LIMITS: RateLimits = {
  signIn: { accountAndAddress: points(2), account: points(4), address: points(6) },
  passwordGrant: { accountAndClient: points(2), account: points(3), client: points(5) },
  clientSecret: points(2),
  interactions: points(2),
};

let limits: AttemptLimits;
let clock: ManualClock;

beforeEach(() => {
  clock = new ManualClock();
  limits = createAttemptLimits(LIMITS, memoryRateLimits(clock));
});

/** How many of so many failing attempts may go on. */
async function allowedOf(
  count: number,
  attempt: () => Promise<{ readonly allowed: boolean }>,
): Promise<number> {
  const attempts = await Promise.all(Array.from({ length: count }, attempt));
  return attempts.filter(({ allowed }) => allowed).length;
}

const from = (account: string, address: string, device?: string) => () =>
  limits.signIn({ account, address, ...(device === undefined ? {} : { device }) });

describe("attempts to sign in", () => {
  it("are limited for one account from one address, for one account, and for one address [D-TOKEN-21]", async () => {
    await expect(allowedOf(10, from("a", "192.0.2.1"))).resolves.toBe(2);
    await expect(allowedOf(10, from("a", "192.0.2.2"))).resolves.toBe(2);
    await expect(allowedOf(10, from("a", "192.0.2.3"))).resolves.toBe(0);
    for (const account of ["b", "c"])
      await expect(allowedOf(10, from(account, "192.0.2.1"))).resolves.toBe(2);
    await expect(allowedOf(10, from("d", "192.0.2.1"))).resolves.toBe(0);
  });

  it("say when the next one can succeed, and it can [D-TOKEN-21]", async () => {
    await allowedOf(2, from("a", "192.0.2.1"));
    clock.advance(100_000);
    const { allowed, retryAfter } = await from("a", "192.0.2.1")();
    expect([allowed, retryAfter]).toEqual([false, 800]);
    clock.advance(retryAfter * 1000);
    await expect(from("a", "192.0.2.1")()).resolves.toMatchObject({ allowed: true, retryAfter: 0 });
  });

  it("that succeed or meet a fault take no point [D-TOKEN-21]", async () => {
    for (let round = 0; round < 20; round += 1) {
      const attempt = await from("a", "192.0.2.1")();
      expect(attempt.allowed).toBe(true);
      await (round % 2 === 0 ? attempt.succeed() : attempt.withdraw());
    }
    await expect(allowedOf(10, from("a", "192.0.2.1"))).resolves.toBe(2);
  });

  it("that are refused empty no other bucket [D-TOKEN-21]", async () => {
    await expect(allowedOf(50, from("a", "192.0.2.1"))).resolves.toBe(2);
    await expect(allowedOf(1, from("a", "192.0.2.2"))).resolves.toBe(1);
    await expect(allowedOf(1, from("b", "192.0.2.1"))).resolves.toBe(1);
  });

  it("of a known device have a bucket of their own: nobody locks out somebody else [D-TOKEN-21]", async () => {
    await allowedOf(10, from("a", "192.0.2.1"));
    await allowedOf(10, from("a", "192.0.2.2"));
    await expect(allowedOf(10, from("a", "192.0.2.3", "phone"))).resolves.toBe(2);
    await expect(allowedOf(10, from("a", "192.0.2.4", "desk"))).resolves.toBe(2);
  });

  it("of an address without a point left are refused also on a known device [D-TOKEN-21]", async () => {
    for (const account of ["a", "b", "c"]) await allowedOf(2, from(account, "192.0.2.1"));
    await expect(allowedOf(2, from("d", "192.0.2.1", "phone"))).resolves.toBe(0);
  });
});

const at = (account: string, client: string) => () => limits.passwordGrant({ account, client });

describe("the other limits", () => {
  it("of the password grant: account at a client, account, client, and no address [D-TOKEN-21]", async () => {
    await expect(allowedOf(10, at("a", "news"))).resolves.toBe(2);
    await expect(allowedOf(10, at("a", "shop"))).resolves.toBe(1);
    await expect(allowedOf(10, at("b", "news"))).resolves.toBe(2);
    await expect(allowedOf(10, at("c", "news"))).resolves.toBe(1);
    await expect(allowedOf(10, at("d", "news"))).resolves.toBe(0);
  });

  it("of client secrets: only wrong ones count, however many come together [D-TOKEN-21]", async () => {
    const check = (matches: boolean) => () =>
      limits.clientSecret({ client: "news", address: "192.0.2.1" }, () => matches);
    await expect(allowedOf(50, check(true))).resolves.toBe(50);
    await expect(allowedOf(50, check(false))).resolves.toBe(2);
    await expect(check(true)()).resolves.toMatchObject({ allowed: false, retryAfter: 900 });
    const elsewhere = limits.clientSecret({ client: "news", address: "192.0.2.2" }, () => true);
    await expect(elsewhere).resolves.toMatchObject({ allowed: true, matches: true });
  });

  it("of new interactions: by address [D-TOKEN-21]", async () => {
    await expect(allowedOf(9, () => limits.interaction("192.0.2.1"))).resolves.toBe(2);
    await expect(allowedOf(1, () => limits.interaction("192.0.2.2"))).resolves.toBe(1);
  });
});

describe("the network of a caller", () => {
  it.each([
    ["192.0.2.1", "::ffff:192.0.2.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:DB8:0001:0002::9"],
    ["2001:db8::1", "2001:db8:0:0:ffff::"],
    ["fe80::1%eth0", "fe80::2"],
  ])("is the same for %s and %s [D-TOKEN-21]", (one, other) => {
    expect(callerNetwork(one)).toBe(callerNetwork(other));
  });

  it("is another one for every other address of IPv4 and /64 of IPv6 [D-TOKEN-21]", () => {
    const addresses = ["192.0.2.1", "192.0.2.2", "2001:db8:1:2::1", "2001:db8:1:3::1", "2001:db8::1", "::1"];
    expect(new Set(addresses.map((address) => callerNetwork(address))).size).toBe(addresses.length);
  });
});
