/** The contract of rate limiters. */
import { setTimeout as pause } from "node:timers/promises";
import { KINDS } from "../../../records/all-kinds.ts";
import {
  createRateLimits,
  RATE_LIMIT,
  type RateLimits,
  type LimitAnswer,
} from "../../../records/rate-limits.ts";
import { artifactRecord } from "../../../records/artifacts/artifact-kinds.ts";
import { Changes, Records } from "../../../records/records.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import { hostileKeys, type Stage } from "./stage.ts";

/** The calls for one limit, by the key of a bucket. */
interface RateLimiter {
  consume(key: string): Promise<LimitAnswer>;
  look(key: string): Promise<LimitAnswer>;
  refund(key: string): Promise<void>;
}

async function takes(limiter: RateLimiter, times: number): Promise<boolean[]> {
  const taken = await Promise.all(Array.from({ length: times }, () => limiter.consume("k")));
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
      async consume(key) {
        const [taken] = await limits.consume([bucket(key)]);
        return taken!;
      },
      async look(key) {
        const [looked] = await limits.look([bucket(key)]);
        return looked!;
      },
      refund: (key) => limits.refund([bucket(key)]),
    };
  }

  it("are shared by all processes with the storage", async () => {
    const { store } = stage.storage.records;
    const processes = [1, 2].map(() =>
      limiter(10, 900, "shared", createRateLimits(new Records(store, stage.clock, KINDS), stage.clock)),
    );
    // One on each process, in turn.
    const taken = await Promise.all(Array.from({ length: 40 }, (_, at) => processes[at % 2]!.consume("k")));
    expect(taken.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  it("keep nothing for a refused attempt, and nothing once a window has ended", async () => {
    const { store } = stage.storage.records;
    const limits = createRateLimits(new Records(store, stage.clock, KINDS), stage.clock);
    const short = limiter(1, 60, "short", limits);
    const stored = async () => (await store.scan(RATE_LIMIT.name, undefined, 1_000)).records;
    await Promise.all(Array.from({ length: 20 }, (_, key) => short.consume(String(key))));
    const before = await stored();
    expect(before).toHaveLength(20);
    const again = await Promise.all(Array.from({ length: 20 }, (_, key) => short.consume(String(key))));
    expect(again.some(({ allowed }) => allowed)).toBe(false);
    expect(await stored()).toEqual(before);
    await limiter(2, 60, "returned", limits).consume("k");
    await limiter(2, 60, "returned", limits).refund("k");
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
    await rateLimits.consume([one, three]);
    const refused = await rateLimits.consume([one, three]);
    expect(refused.map(({ allowed }) => allowed)).toEqual([false, true]);
    expect(await rateLimits.consume([three])).toMatchObject([{ allowed: true }]);
    expect(await rateLimits.consume([three])).toMatchObject([{ allowed: true }]);
    expect(await rateLimits.consume([three])).toMatchObject([{ allowed: false }]);
    await rateLimits.refund([one, three]);
    expect(await rateLimits.consume([one, three])).toMatchObject([{ allowed: true }, { allowed: true }]);
  });

  it("write what rides with a point together with it: both, or neither", async () => {
    const { store } = stage.storage.records;
    const limits = createRateLimits(new Records(store, stage.clock, KINDS), stage.clock);
    const bucket = { limit: "ridden", points: 2, seconds: 900, key: "k" };
    const used = async () => (await limits.look([bucket]))[0]?.used;
    const record = (key: string) =>
      artifactRecord({
        model: "Interaction",
        key,
        payload: {},
        expiresAt: stage.clock.now() + 900_000,
      });
    const isThere = async (key: string) => (await store.get([record(key)]))[0] !== undefined;
    const versions: string[] = [];
    const riding = (key: string, version?: string) => {
      const changes = new Changes();
      changes.write(record(key), version === undefined ? undefined : { version });
      const deadline = stage.clock.now() + 4_000;
      return { changes, deadline, onWritten: (written: string) => void versions.push(written) };
    };
    await limits.consume([bucket], { rider: riding("first") });
    expect((await store.get([record("first")]))[0]?.version).toBe(versions[0]);
    // Of several at once, one that can't be written fails alone, and those about one record are one after the other.
    const outcomes = await Promise.allSettled([
      limits.look([bucket]),
      limits.consume([bucket], { rider: riding("first") }),
      limits.refund([bucket], riding("first", versions[0])),
      limits.refund([bucket], riding("first", versions[0])),
      limits.consume([bucket], { rider: riding("second") }),
      limits.consume([bucket], { rider: riding("third") }),
      limits.consume([bucket], { rider: riding("fourth") }),
    ]);
    expect(outcomes.map(({ status }) => status === "fulfilled")).toEqual([
      true,
      false,
      true,
      false,
      true,
      true,
      true,
    ]);
    expect(await Promise.all(["second", "third", "fourth"].map(isThere))).toEqual([true, true, false]);
    expect(await used()).toBe(2);
    await expect(
      limits.refund([bucket], { ...riding("fifth"), deadline: stage.clock.now() }),
    ).rejects.toMatchObject({ code: "storage_unavailable" });
    expect([await isThere("fifth"), await used()]).toEqual([false, 2]);
  });

  it("write together what relies on one record; when that is gone, nothing of it", async () => {
    const { store } = stage.storage.records;
    const limits = createRateLimits(new Records(store, stage.clock, KINDS), stage.clock);
    const record = (key: string) => {
      const expiresAt = stage.clock.now() + 900_000;
      return artifactRecord({ model: "Interaction", key, payload: {}, expiresAt });
    };
    const versions: string[] = [];
    const onWritten = (version: string): void => void versions.push(version);
    const consume = (key: string) => {
      const changes = new Changes();
      changes.expect(record("relied on"), { version: "present" });
      changes.write(record(key), undefined);
      const rider = { changes, deadline: stage.clock.now() + 4_000, onWritten };
      return limits.consume([{ limit: "ridden", points: 9, seconds: 900, key: "relying" }], { rider });
    };
    const { records } = stage.storage;
    const changes = new Changes();
    changes.write(record("relied on"), undefined);
    await records.commit(changes, {});
    await Promise.all(["one", "two", "three"].map(consume));
    expect([versions.length, new Set(versions).size]).toEqual([3, 1]);
    const removal = new Changes();
    removal.drop(record("relied on"));
    await records.commit(removal, {});
    const outcomes = await Promise.allSettled(["four", "five"].map(consume));
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await store.get([record("four"), record("five")])).toEqual([undefined, undefined]);
  });

  it("end a window earlier when the limit is shortened, and apply the number of points of now", async () => {
    await takes(limiter(3, 900, "changed"), 3);
    const { allowed, retryAfter } = await limiter(3, 60, "changed").consume("k");
    expect([allowed, retryAfter <= 60]).toEqual([false, true]);
    await expect(limiter(4, 900, "changed").consume("k")).resolves.toMatchObject({ allowed: true });
  });

  it("allow exactly as many of 100 parallel attempts as there are points", async () => {
    const ten = limiter(10);
    const taken = await takes(ten, 100);
    expect(taken.filter((allowed) => allowed)).toHaveLength(10);
    expect(taken.slice(0, 10).every((allowed) => allowed)).toBe(true);
    await expect(ten.consume("other")).resolves.toEqual({
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
      taken.push(one.consume("k"));
      // Sometimes the two calls are in different iterations of the event loop.
      if (round % 100 === 0) await pause(0);
      given.push(one.refund("k"));
    }
    expect((await Promise.all(taken)).every(({ allowed }) => allowed)).toBe(true);
    await Promise.all(given);
    await expect(takes(one, 2)).resolves.toEqual([true, false]);
  });

  it("don't count refused attempts, and return the point of a success", async () => {
    const two = limiter(2);
    await expect(takes(two, 4)).resolves.toEqual([true, true, false, false]);
    await two.refund("k");
    await expect(takes(two, 2)).resolves.toEqual([true, false]);
  });

  it("never exceed their points, whatever is returned", async () => {
    const two = limiter(2);
    await Promise.all([two.refund("k"), two.refund("k")]);
    await expect(takes(two, 3)).resolves.toEqual([true, true, false]);
  });

  it("refuse until the end of the first attempt's window, and say for how many seconds", async () => {
    const two = limiter(2, 2);
    await takes(two, 2);
    const { allowed, retryAfter } = await two.consume("k");
    expect(allowed).toBe(false);
    expect([1, 2]).toContain(retryAfter);
    // The points follow the storage's clock or the server's.
    while (!(await two.consume("k")).allowed) {
      stage.clock.advance(50);
      await pause(50);
    }
    await expect(takes(two, 2)).resolves.toEqual([true, false]);
  });

  it("look for a point without taking it, in order with earlier calls", async () => {
    const two = limiter(2);
    const looks = async (): Promise<boolean> => (await two.look("k")).allowed;
    await expect(Promise.all([looks(), looks(), looks()])).resolves.toEqual([true, true, true]);
    const [, first, , second] = await Promise.all([two.consume("k"), looks(), two.consume("k"), looks()]);
    expect([first, second]).toEqual([true, false]);
    const { allowed, retryAfter } = await two.look("k");
    expect([allowed, retryAfter > 0, retryAfter <= 900]).toEqual([false, true, true]);
    await two.refund("k");
    await expect(looks()).resolves.toBe(true);
    await expect(takes(two, 2)).resolves.toEqual([true, false]);
  });

  it("separate names and similar keys", async () => {
    const [one, two] = [limiter(1, 60, "one"), limiter(1, 60, "two")];
    for (const each of [one, two]) {
      const taken = await Promise.all(hostileKeys.map((key) => each.consume(key)));
      expect(taken.every(({ allowed }) => allowed)).toBe(true);
    }
    await expect(one.consume("a")).resolves.toMatchObject({ allowed: false });
  });
}
