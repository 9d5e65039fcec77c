/** What becomes of a commit when Redis stops, sleeps, restarts, or its answer is lost. */
import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { ArtifactStore, ArtifactWrite } from "../../../adapters/artifacts.ts";
import { openRedis, type RedisParts } from "../../../adapters/redis/index.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { artifact, outcomes } from "../../../lib/testing/contract/stage.ts";
import { Wire } from "../../servers/wire.ts";

const clock = createSystemClock();
const UNAVAILABLE = { code: "storage_unavailable" };
let redis: OwnRedis;
let wire: Wire;
let parts: RedisParts;
let artifacts: ArtifactStore;

beforeAll(async () => {
  redis = await openOwnRedis();
});
afterAll(() => redis.close());

beforeEach(async () => {
  await redis.client.flushall();
  wire = await Wire.to(Number(new URL(redis.url).port));
  parts = await openRedis({ url: `redis://127.0.0.1:${wire.port}`, clock });
  ({ artifacts } = parts);
});
afterEach(async () => {
  redis.resume();
  await parts.close();
  await wire.close();
});

function commit(milliseconds: number, ...writes: ArtifactWrite[]): Promise<void> {
  return artifacts.commit({ id: randomUUID(), deadline: clock.now() + milliseconds, writes });
}
const put = (key: string): ArtifactWrite => ({ kind: "put", artifact: artifact(clock, "Session", key) });
const consume = (key: string): ArtifactWrite => ({ kind: "consume", model: "Session", key, at: clock.now() });

const ping = (): Promise<void> => parts.parts[0]!.ping();

/** How many scripts Redis has begun. */
async function begun(): Promise<number> {
  const stats = await redis.client.info("commandstats");
  return [...stats.matchAll(/cmdstat_evalsha:calls=(\d+)/gu)].reduce(
    (sum, [, calls]) => sum + Number(calls),
    0,
  );
}

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** Calls again and again until one succeeds: the test's time-out is the only limit. */
async function untilItWorks(call: () => Promise<unknown>): Promise<void> {
  await until(() =>
    call().then(
      () => true,
      () => false,
    ),
  );
}

describe("a commit to a Redis that sleeps", () => {
  it.each([500, 3500])(
    "is refused at its deadline of %d ms, and not made up for when Redis wakes up",
    async (wait) => {
      await commit(5000, put("code"));
      const before = await begun();
      redis.pause();
      await expect(commit(wait, consume("code"), put("token"))).rejects.toMatchObject(UNAVAILABLE);
      redis.resume();
      // It was on its way all the time: Redis has begun it and refused.
      await until(async () => (await begun()) > before);
      await untilItWorks(() => artifacts.find("Session", "code"));
      await expect(artifacts.find("Session", "token")).resolves.toBeUndefined();
      await expect(commit(5000, consume("code"), put("token"))).resolves.toBeUndefined();
      await expect(artifacts.find("Session", "token")).resolves.toBeDefined();
    },
  );

  it("is written once when Redis wakes up in time, whether the connection was given up or not", async () => {
    for (const pause of [300, 3000]) {
      const key = `code ${pause}`;
      await commit(5000, put(key));
      redis.pause();
      const written = commit(30_000, consume(key), put(`token ${pause}`));
      setTimeout(() => redis.resume(), pause);
      await expect(written).resolves.toBeUndefined();
      await expect(artifacts.find("Session", key)).resolves.toMatchObject({ consumedAt: expect.any(Number) });
      await expect(commit(5000, consume(key))).rejects.toMatchObject({ code: "condition_failed" });
    }
  });

  it("refuses reads, and they work again by themselves", async () => {
    await commit(5000, put("k"));
    redis.pause();
    const calls = [
      artifacts.find("Session", "k"),
      artifacts.findByUid("Session", "k"),
      artifacts.listByAccount({ accountId: "k" }),
      parts.parts[0]!.ping(),
      parts.rateLimits("name", { points: 1, seconds: 1 }).take("k"),
    ];
    await expect(outcomes(calls)).resolves.toEqual(calls.map(() => "storage_unavailable"));
    redis.resume();
    await untilItWorks(() => artifacts.find("Session", "k"));
  });
});

describe("a commit whose answer is lost", () => {
  it("is asked for again, and was written once", async () => {
    await commit(5000, put("code"));
    const lost = wire.loseAnswer(1);
    const written = commit(4500, consume("code"), put("token"));
    await lost;
    await expect(written).resolves.toBeUndefined();
    await expect(artifacts.find("Session", "token")).resolves.toBeDefined();
    await expect(commit(5000, consume("code"))).rejects.toMatchObject({ code: "condition_failed" });
  });

  it("is asked for again also when the answer was that a condition failed", async () => {
    const lost = wire.loseAnswer(1);
    const refused = commit(4500, consume("none"), put("token"));
    await lost;
    await expect(refused).rejects.toMatchObject({ code: "condition_failed" });
    await expect(artifacts.find("Session", "token")).resolves.toBeUndefined();
  });

  it("of many, all are written", async () => {
    const keys = Array.from({ length: 100 }, (_, index) => `k${index}`);
    const lost = wire.loseAnswer(1);
    const written = keys.map((key) => commit(4500, put(key)));
    await lost;
    await expect(outcomes(written)).resolves.toEqual(keys.map(() => undefined));
  });

  it("because Redis is gone is refused, in time, and nothing more is sent of it later", async () => {
    await commit(5000, put("code"));
    redis.pause();
    const refused = commit(1500, consume("code"));
    await redis.stop();
    await expect(refused).rejects.toMatchObject(UNAVAILABLE);
    await redis.start();
    await untilItWorks(() => commit(5000, put("new")));
    await expect(artifacts.find("Session", "code")).resolves.toBeUndefined();
  });
});

/** Of each key, whether both artifacts that were put together are there. */
async function found(keys: readonly string[]): Promise<boolean[]> {
  const both = keys.flatMap((key) => [key, `${key} too`]);
  return (await Promise.all(both.map((key) => artifacts.find("Session", key)))).map(
    (one) => one !== undefined,
  );
}

describe("commits to a Redis that is far away", () => {
  it("don't wait for each other: the next one is there while no answer has come to the first", async () => {
    const before = await begun();
    wire.delay = 1500;
    const answered: string[] = [];
    const send = (key: string): Promise<unknown> => commit(4000, put(key)).then(() => answered.push(key));
    const first = send("first");
    await until(async () => (await begun()) === before + 1);
    const second = send("second");
    await until(async () => (await begun()) === before + 2);
    expect(answered).toEqual([]);
    await Promise.all([first, second]);
    expect(answered).toEqual(["first", "second"]);
  });
});

describe("a connection that is lost", () => {
  it("refuses at once and comes back by itself, with a Redis that has forgotten the scripts", async () => {
    await commit(5000, put("k"));
    await redis.stop();
    await until(() =>
      artifacts.find("Session", "k").then(
        () => false,
        () => true,
      ),
    );
    const calls = [commit(5000, put("k")), artifacts.find("Session", "k"), artifacts.removeByClient("c")];
    await expect(outcomes(calls)).resolves.toEqual(calls.map(() => "storage_unavailable"));
    await redis.start();
    await untilItWorks(() => commit(5000, put("k")));
    await expect(artifacts.find("Session", "k")).resolves.toBeDefined();
  });

  it("again and again under load loses no commit that was acknowledged and writes none that was refused", async () => {
    const acknowledged: string[] = [];
    const refused: string[] = [];
    const stop = new AbortController();
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let number = 0; !stop.signal.aborted; number += 1) {
        const key = `${writer}-${number}`;
        // Two in one: neither may be there alone.
        await commit(4500, put(key), put(`${key} too`)).then(
          () => acknowledged.push(key),
          () => refused.push(key),
        );
        if (refused.length > acknowledged.length) await new Promise((resolve) => setTimeout(resolve, 5));
      }
    });
    for (let round = 0; round < 20; round += 1) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      if (round % 2 === 0) wire.cut();
      else await wire.loseAnswer(1);
    }
    stop.abort();
    await Promise.all(writers);
    expect(acknowledged.length).toBeGreaterThan(100);
    expect((await found(acknowledged)).every((one) => one)).toBe(true);
    expect((await found(refused)).some((one) => one)).toBe(false);
  });
});

it("a Redis that has been started again is not well while it loads what it keeps", async () => {
  await redis.client.mset(Object.fromEntries(Array.from({ length: 3000 }, (_, key) => [`k${key}`, "v"])));
  await redis.client.save();
  await redis.stop();
  const slowly = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
  const loaded = redis.start(slowly);
  const told: unknown[] = [];
  await untilItWorks(async () => {
    try {
      await ping();
    } catch (error) {
      told.push((error as Error).message);
      throw error;
    }
  });
  await loaded;
  expect(told).toContain("Redis answered LOADING");
});

describe("a primary that has become a replica", () => {
  afterEach(() => redis.client.replicaof("NO", "ONE"));

  it("is left by itself for the one that the address leads to by then", async () => {
    const other = await openOwnRedis();
    const port = Number(new URL(other.url).port);
    await redis.client.replicaof("127.0.0.1", port);
    wire.leadTo(port);
    await expect(commit(5000, put("k"))).rejects.toMatchObject({ message: "Redis answered READONLY" });
    await untilItWorks(() => commit(5000, put("k")));
    await expect(other.client.exists("sign-in:artifact:Session:k")).resolves.toBe(1);
    await other.close();
  });

  it("is not well, and is left by whoever asks for nothing but how it is", async () => {
    await ping();
    await redis.client.replicaof("127.0.0.1", 1);
    const before = wire.connections;
    await expect(ping()).rejects.toMatchObject({ message: "this Redis is a replica" });
    await redis.client.replicaof("NO", "ONE");
    await untilItWorks(ping);
    expect(wire.connections).toBeGreaterThan(before);
  });
});

it("of 50 that consume at once over five connections exactly one is the first", async () => {
  const url = `redis://127.0.0.1:${new URL(redis.url).port}`;
  const others = await Promise.all(Array.from({ length: 5 }, () => openRedis({ url, clock })));
  for (let round = 0; round < 10; round += 1) {
    await commit(5000, put(`code ${round}`));
    const codes = await outcomes(
      Array.from({ length: 50 }, (_, index) =>
        others[index % 5]!.artifacts.commit({
          id: randomUUID(),
          deadline: clock.now() + 4500,
          writes: [consume(`code ${round}`), put(`token ${round} ${index}`)],
        }),
      ),
    );
    expect(codes.filter((code) => code === undefined)).toHaveLength(1);
    expect(codes.filter((code) => code === "condition_failed")).toHaveLength(49);
  }
  await Promise.all(others.map((each) => each.close()));
});
