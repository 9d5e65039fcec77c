import { createSecretKey } from "node:crypto";
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { openSqlite } from "../../../adapters/sqlite/record-store.ts";
import { type AttemptLimits, createAttemptLimits } from "../../../accounts/limits/attempt-limits.ts";
import { readName } from "../../../accounts/names.ts";
import { KINDS } from "../../../records/all-kinds.ts";
import {
  type Bucket,
  createRateLimits,
  RATE_LIMIT,
  type RateLimits as Counters,
} from "../../../records/rate-limits.ts";
import { Records } from "../../../records/records.ts";
import { ManualClock } from "../../records/rules/stage.ts";
import type { RateLimits } from "../../../config/rate-limits.ts";

const points = (count: number): { points: number; seconds: number } => ({ points: count, seconds: 900 });

const LIMITS: RateLimits = {
  signIn: { accountAndAddress: points(2), account: points(4), address: points(6) },
  passwordGrant: { accountAndClient: points(2), account: points(3), client: points(5) },
  deviceRequests: points(2),
  deviceCodes: { account: points(2), address: points(3) },
  clientSecret: points(2),
  dpopProof: points(2),
  interactions: points(2),
  authorizations: points(2),
  mail: {
    recipientAndCaller: points(2),
    recipientAndCallerDaily: { points: 3, seconds: 86_400 },
    recipient: points(4),
    recipientDaily: { points: 6, seconds: 86_400 },
    caller: points(5),
    device: points(2),
  },
  changes: points(3),
  registrations: points(3),
  networks: { "203.0.113.0/24": 20, "203.0.113.7": 30, "2001:db8:99::/48": 3 },
};

const KEY = createSecretKey(Buffer.alloc(32, 1));

let limits: AttemptLimits;
let clock: ManualClock;
/** All keys that the counters were called with. */
let keys: string[];
let counters: Counters;
let store: RecordStore;

function recorded(buckets: readonly Bucket[]): readonly Bucket[] {
  keys.push(...buckets.map(({ key }) => key));
  return buckets;
}

/** The same counters, which also record their keys. */
function recording(real: Counters): Counters {
  return {
    consume: (buckets) => real.consume(recorded(buckets)),
    look: (buckets) => real.look(recorded(buckets)),
    refund: (buckets) => real.refund(recorded(buckets)),
  };
}

beforeEach(async () => {
  clock = new ManualClock();
  keys = [];
  store = await openSqlite({ path: ":memory:", clock });
  counters = recording(createRateLimits(new Records(store, clock, KINDS), clock));
  limits = createAttemptLimits(LIMITS, counters, KEY);
});

/** How many of `count` failing attempts are allowed. */
async function allowedOf(
  count: number,
  attempt: () => Promise<{ readonly allowed: boolean }>,
): Promise<number> {
  const attempts = await Promise.all(Array.from({ length: count }, attempt));
  return attempts.filter(({ allowed }) => allowed).length;
}

const from = (name: string, address: string, device?: string) => () =>
  limits.signIn({ name: readName(name), address, device, guessed: false });

describe("attempts to sign in", () => {
  it("leave three windows, however many are refused, and none once they have ended [D-LIMIT-3]", async () => {
    const stored = async () => (await store.scan(RATE_LIMIT.name, undefined, 1_000)).records.length;
    await allowedOf(50, from("a", "192.0.2.1"));
    await expect(stored()).resolves.toBe(3);
    clock.advance(900_000);
    await store.sweep(1_000, clock.now());
    await expect(stored()).resolves.toBe(0);
  });

  it("are limited per account and address, per account, and per address [D-TOKEN-21]", async () => {
    await expect(allowedOf(10, from("a", "192.0.2.1"))).resolves.toBe(2);
    await expect(allowedOf(10, from("a", "192.0.2.2"))).resolves.toBe(2);
    await expect(allowedOf(10, from("a", "192.0.2.3"))).resolves.toBe(0);
    for (const account of ["b", "c"])
      await expect(allowedOf(10, from(account, "192.0.2.1"))).resolves.toBe(2);
    await expect(allowedOf(10, from("d", "192.0.2.1"))).resolves.toBe(0);
  });

  it("say when the next one can succeed [D-TOKEN-21]", async () => {
    await allowedOf(2, from("a", "192.0.2.1"));
    clock.advance(100_000);
    const { allowed, retryAfter } = await from("a", "192.0.2.1")();
    expect([allowed, retryAfter]).toEqual([false, 800]);
    clock.advance(retryAfter * 1000);
    await expect(from("a", "192.0.2.1")()).resolves.toMatchObject({ allowed: true, retryAfter: 0 });
  });

  it("that succeed or fail with a fault take no point [D-TOKEN-21]", async () => {
    for (let round = 0; round < 20; round += 1) {
      const attempt = await from("a", "192.0.2.1")();
      expect(attempt.allowed).toBe(true);
      await (round % 2 === 0 ? attempt.succeed() : attempt.withdraw());
    }
    await expect(allowedOf(10, from("a", "192.0.2.1"))).resolves.toBe(2);
  });

  it("that are refused take no points from other buckets [D-TOKEN-21]", async () => {
    await expect(allowedOf(50, from("a", "192.0.2.1"))).resolves.toBe(2);
    await expect(allowedOf(1, from("a", "192.0.2.2"))).resolves.toBe(1);
    await expect(allowedOf(1, from("b", "192.0.2.1"))).resolves.toBe(1);
  });

  it("from a known device have their own bucket, so others can't lock it out [D-TOKEN-21, D-LIMIT-4]", async () => {
    await allowedOf(10, from("a", "192.0.2.1"));
    await allowedOf(10, from("a", "192.0.2.2"));
    await expect(allowedOf(10, from("a", "192.0.2.3", "phone"))).resolves.toBe(2);
    await expect(allowedOf(10, from("a", "192.0.2.4", "desk"))).resolves.toBe(2);
  });

  it("from an address without points are allowed on a known device, which has points of its own [D-TOKEN-21, D-LIMIT-4]", async () => {
    for (const account of ["a", "b", "c"]) await allowedOf(2, from(account, "192.0.2.1"));
    await expect(allowedOf(2, from("d", "192.0.2.1"))).resolves.toBe(0);
    await expect(allowedOf(5, from("d", "192.0.2.1", "phone"))).resolves.toBe(2);
  });
});

const at = (name: string, client: string) => () =>
  limits.passwordGrant({ name: readName(name), client, guessed: false });

describe("the other limits", () => {
  it("count the password grant per account and client, per account and per client, not per address [D-TOKEN-21]", async () => {
    await expect(allowedOf(10, at("a", "news"))).resolves.toBe(2);
    await expect(allowedOf(10, at("a", "shop"))).resolves.toBe(1);
    await expect(allowedOf(10, at("b", "news"))).resolves.toBe(2);
    await expect(allowedOf(10, at("c", "news"))).resolves.toBe(1);
    await expect(allowedOf(10, at("d", "news"))).resolves.toBe(0);
  });

  it("count only wrong client secrets, even if they arrive in parallel [D-TOKEN-21]", async () => {
    const check = (match: "generated" | "chosen" | undefined) => () =>
      limits.clientSecret({ client: "news", address: "192.0.2.1" }, () => match);
    await expect(allowedOf(50, check("chosen"))).resolves.toBe(50);
    await expect(allowedOf(50, check(undefined))).resolves.toBe(2);
    await expect(check("chosen")()).resolves.toMatchObject({ allowed: false, retryAfter: 900 });
    // Nobody guesses 256 bits.
    await expect(check("generated")()).resolves.toMatchObject({ allowed: true, matches: true });
    const elsewhere = limits.clientSecret({ client: "news", address: "192.0.2.2" }, () => "chosen");
    await expect(elsewhere).resolves.toMatchObject({ allowed: true, matches: true });
  });

  it("count an IPv6 /48 too, with ten times the points [D-STRANGER-2]", async () => {
    let subnet = 0;
    const anywhere = () => limits.interaction(`2001:db8:1:${(subnet += 1).toString(16)}::1`);
    await expect(allowedOf(30, anywhere)).resolves.toBe(20);
    await expect(allowedOf(1, () => limits.interaction("2001:db8:2::1"))).resolves.toBe(1);
    // A refused attempt takes no point of its /64.
    clock.advance(900_000);
    await expect(allowedOf(5, () => limits.interaction("2001:db8:1:1::1"))).resolves.toBe(2);
    const secret = (host: number) =>
      limits.clientSecret({ client: "news", address: `2001:db8:1:${host}::1` }, () => undefined);
    for (let host = 0; host < 20; host += 1) await secret(host);
    const chosen = limits.clientSecret({ client: "news", address: "2001:db8:1:ff::1" }, () => "chosen");
    await expect(chosen).resolves.toMatchObject({ allowed: false, matches: true });
  });

  it("count new interactions per address [D-TOKEN-21]", async () => {
    await expect(allowedOf(9, () => limits.interaction("192.0.2.1"))).resolves.toBe(2);
    await expect(allowedOf(1, () => limits.interaction("192.0.2.2"))).resolves.toBe(1);
  });
});

/** Too long as typed, and too long in normal form, where one character becomes eighteen. */
const LONG = ["x".repeat(255), "y".repeat(60_000), "\ufdfa".repeat(15), "\ufdfa".repeat(20_000)];

describe("names in rate limits", () => {
  it("are normalised [D-LIMIT-1]", async () => {
    for (const name of ["Ada", "\uff41da"]) {
      await expect(allowedOf(1, from(name, "192.0.2.1"))).resolves.toBe(1);
      await expect(allowedOf(1, at(name, "news"))).resolves.toBe(1);
    }
    await expect(allowedOf(1, from("ADA", "192.0.2.1"))).resolves.toBe(0);
    await expect(allowedOf(1, at("ADA", "news"))).resolves.toBe(0);
    await expect(allowedOf(1, from("ad", "192.0.2.1"))).resolves.toBe(1);
    await expect(allowedOf(1, at("ad", "news"))).resolves.toBe(1);
  });

  it("share one bucket per address and per client if they are too long [D-LIMIT-2]", async () => {
    for (const name of LONG.slice(0, 2)) {
      await expect(allowedOf(1, from(name, "192.0.2.1"))).resolves.toBe(1);
      await expect(allowedOf(1, at(name, "news"))).resolves.toBe(1);
    }
    for (const name of LONG) {
      await expect(allowedOf(1, from(name, "192.0.2.1"))).resolves.toBe(0);
      await expect(allowedOf(1, at(name, "news"))).resolves.toBe(0);
    }
    await expect(allowedOf(9, from(LONG[0]!, "192.0.2.2"))).resolves.toBe(2);
    await expect(allowedOf(9, at(LONG[0]!, "shop"))).resolves.toBe(2);
    await expect(allowedOf(9, from("x".repeat(254), "192.0.2.1"))).resolves.toBe(2);
    await expect(allowedOf(9, at("x".repeat(254), "news"))).resolves.toBe(2);
  });

  it("are not in the keys, and neither are addresses [D-LIMIT-1]", async () => {
    const texts = ["ada", "\ud800", "\0", "__proto__", "x".repeat(254), ...LONG];
    const addresses = ["192.0.2.1", "2001:db8::1", "", "unknown", "text ".repeat(3_000), "\ud800\0"];
    for (const text of texts) {
      for (const address of addresses) {
        await from(text, address)();
        await from(text, address, "phone")();
        await limits.clientSecret({ client: "news", address }, () => undefined);
        await limits.interaction(address);
      }
      await at(text, "news")();
    }
    expect(keys.length).toBeGreaterThan(200);
    expect(keys.filter((key) => !/^[\w-]{22}$/.test(key))).toEqual([]);
    const first = new Set(keys);
    keys = [];
    const elsewhere = createAttemptLimits(LIMITS, counters, createSecretKey(Buffer.alloc(32, 2)));
    await elsewhere.signIn({
      name: readName("ada"),
      address: "192.0.2.1",
      device: undefined,
      guessed: false,
    });
    expect(keys.filter((key) => first.has(key))).toEqual([]);
  });

  it("can't imitate another name, address, client or device [D-LIMIT-1]", async () => {
    const attempts = [
      from("a", "b"),
      from("a b", ""),
      from('a","b', ""),
      from("a", "", "b"),
      from("a device b", ""),
      from("device", "a", "b"),
      from("too long", "b"),
      from("x".repeat(255), "name"),
      from("name", "x"),
    ];
    const firstKeys: string[] = [];
    for (const attempt of attempts) {
      keys = [];
      await attempt();
      firstKeys.push(keys[0]!);
    }
    expect(new Set(firstKeys).size).toBe(attempts.length);
  });
});

/** How many sign-ins this address can start. */
async function started(address: string): Promise<number> {
  for (let count = 0; ; count += 1) if (!(await limits.interaction(address)).allowed) return count;
}

describe("networks of one's own", () => {
  it("have more points in the limits by address, and in no other [D-NETWORK-1]", async () => {
    const usual = LIMITS.interactions.points;
    await expect(started("198.51.100.1")).resolves.toBe(usual);
    await expect(started("203.0.113.1")).resolves.toBe(20 * usual);
    await expect(started("203.0.113.7")).resolves.toBe(30 * usual);
    await expect(started("2001:db8:99::1")).resolves.toBe(3 * usual);
    const account = LIMITS.signIn.account.points;
    let allowed = 0;
    for (let count = 0; count < 2 * account; count += 1)
      if ((await from("b", `203.0.113.${count}`)()).allowed) allowed += 1;
    expect(allowed).toBe(account);
  });
});
