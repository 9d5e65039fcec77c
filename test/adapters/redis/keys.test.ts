/** What lies in Redis: names, times, and that nothing stays. */
import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { Artifact, ArtifactWrite } from "../../../adapters/artifacts.ts";
import { openRedis, type RedisParts } from "../../../adapters/redis/index.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { artifact, ManualClock } from "../../../lib/testing/contract/stage.ts";

const clock = createSystemClock();
let redis: OwnRedis;
let parts: RedisParts;

beforeAll(async () => {
  redis = await openOwnRedis();
});
afterAll(() => redis.close());
beforeEach(async () => {
  parts = await openRedis({ url: redis.url, clock });
  await redis.client.flushall();
});
afterEach(() => parts.close());

function commit(...writes: ArtifactWrite[]): Promise<void> {
  return parts.artifacts.commit({ id: randomUUID(), deadline: clock.now() + 4500, writes });
}

function put(model: string, key: string, milliseconds: number, more: Partial<Artifact> = {}): ArtifactWrite {
  const expiresAt = clock.now() + milliseconds;
  return { kind: "put", artifact: artifact(clock, model, key, { expiresAt, ...more }) };
}

/** Keys with the milliseconds that they still live; -1 for one that would stay for ever, -2 for one that has just gone. */
async function lives(pattern: string): Promise<ReadonlyMap<string, number>> {
  const names = await redis.client.keys(pattern);
  return new Map(
    await Promise.all(names.map(async (name) => [name, await redis.client.pttl(name)] as const)),
  );
}

const only = (all: ReadonlyMap<string, number>): number => [...all.values()][0] ?? Number.NaN;

/** The family of a sign-in as a service writes it. */
function family(number: number, milliseconds: number): ArtifactWrite[] {
  const names = { grantKey: `g${number}`, accountId: `a${number % 3}`, clientId: `c${number % 2}` };
  return [
    put("Session", `s${number}`, milliseconds, { uid: `u${number}`, accountId: names.accountId }),
    put("Grant", `g${number}`, milliseconds, names),
    put("AuthorizationCode", `code${number}`, milliseconds / 2, names),
    put("AccessToken", `at${number}`, milliseconds / 4, names),
    put("RefreshToken", `rt${number}`, milliseconds, names),
    {
      kind: "consume",
      model: "RefreshToken",
      key: `rt${number}`,
      at: clock.now(),
      replay: "sealed",
      replayUntil: clock.now() + milliseconds / 3,
    },
  ];
}

describe("nothing is left behind", () => {
  it("when everything has expired, whatever was done with it", async () => {
    const numbers = Array.from({ length: 12 }, (_, index) => index);
    await Promise.all(numbers.map((number) => commit(...family(number, 3000 + 50 * number))));
    const session = artifact(clock, "Session", "s1", {
      expiresAt: clock.now() + 3900,
      payload: { n: { a: 1 } },
    });
    await commit(
      { kind: "update", artifact: session, merge: "n" },
      { kind: "consume", model: "AuthorizationCode", key: "code2", at: 1 },
      { kind: "revoke", grantKey: "g3" },
      { kind: "remove", model: "Session", key: "s4", mustExist: true },
      put("Session", "s5", 50),
      put("Session", "hostile \0\ud800", 300, { uid: "\ud800", accountId: "", clientId: "a b" }),
    );
    await commit({ kind: "require", model: "Grant", key: "none" }).catch(() => undefined);
    await parts.artifacts.removeByAccount({ accountId: "a1", models: ["AccessToken"] });
    const limiter = parts.rateLimits("name", { points: 2, seconds: 1 });
    await Promise.all(["a", "a", "a", "b"].map((key) => limiter.take(key)));
    await limiter.giveBack("b");
    const all = await lives("*");
    expect(all.size).toBeGreaterThan(60);
    expect([...all].filter(([name, left]) => left === -1 || !name.startsWith("sign-in:"))).toEqual([]);
    while ((await redis.client.dbsize()) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
  });

  it("in an index: it forgets what has expired, and expires with its longest member", async () => {
    const names = { grantKey: "g", accountId: "a", clientId: "c" };
    await commit(
      ...Array.from({ length: 50 }, (_, index) => put("AccessToken", `short${index}`, 100, names)),
    );
    await commit(put("RefreshToken", "long", 60_000, names));
    while (await parts.artifacts.find("AccessToken", "short49")) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await commit(put("AccessToken", "new", 10_000, names));
    for (const index of ["by-grant:g", "by-account:a", "by-client:c"]) {
      await expect(redis.client.zcard(`sign-in:${index}`)).resolves.toBe(2);
      const left = await redis.client.pttl(`sign-in:${index}`);
      expect(left).toBeGreaterThan(50_000);
      expect(left).toBeLessThanOrEqual(60_000);
    }
    await commit({ kind: "remove", model: "RefreshToken", key: "long", mustExist: true });
    const left = await redis.client.pttl("sign-in:by-account:a");
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(10_000);
  });
});

describe("an index that leads to what belongs to others", () => {
  it("takes nothing of theirs along when it is emptied, and comes to its end", async () => {
    await commit(put("AccessToken", "own", 60_000, { clientId: "c", accountId: "a" }));
    await commit(put("AccessToken", "other", 60_000, { clientId: "d", accountId: "b" }));
    for (const index of ["by-client:c", "by-account:a"]) {
      await redis.client.zadd(`sign-in:${index}`, clock.now() + 60_000, "AccessToken:other");
    }
    await expect(parts.artifacts.removeByClient("c")).resolves.toBe(1);
    await expect(parts.artifacts.removeByAccount({ accountId: "a" })).resolves.toBe(0);
    await expect(redis.client.keys("sign-in:by-*")).resolves.not.toContain("sign-in:by-client:c");
    await expect(parts.artifacts.find("AccessToken", "other")).resolves.toBeDefined();
  });
});

describe("times", () => {
  it("consuming keeps the time that is left, and so does the failure to consume again", async () => {
    await commit(put("AuthorizationCode", "code", 60_000));
    const before = only(await lives("*artifact:*"));
    const consume = { kind: "consume", model: "AuthorizationCode", key: "code", at: 1 } as const;
    await commit(consume);
    await expect(commit(consume)).rejects.toMatchObject({ code: "condition_failed" });
    const after = only(await lives("*artifact:*"));
    expect(after).toBeGreaterThan(before - 10_000);
    expect(after).toBeLessThanOrEqual(before);
  });

  it("go by the clock of the service, however far it is from that of Redis", async () => {
    for (const now of [1000, 4e12]) {
      const own = new ManualClock(now);
      const other = await openRedis({ url: `${redis.url}?prefix=other:`, clock: own });
      const written = artifact(own, "Session", "k", { uid: "u" });
      await other.artifacts.commit({
        id: randomUUID(),
        deadline: own.now() + 4500,
        writes: [{ kind: "put", artifact: written }],
      });
      await expect(other.artifacts.find("Session", "k")).resolves.toEqual(written);
      const left = only(await lives("other:artifact:*"));
      expect(left).toBeGreaterThan(50_000);
      expect(left).toBeLessThanOrEqual(60_000);
      own.advance(60_000);
      await expect(other.artifacts.find("Session", "k")).resolves.toBeUndefined();
      await other.close();
      await redis.client.flushall();
    }
  });
});

describe("names", () => {
  it("a prefix and a database keep two services apart in one Redis", async () => {
    const urls = [`${redis.url}?prefix=one:`, `${redis.url}?prefix=two:`, `${redis.url}/1?prefix=one:`];
    const services = await Promise.all(urls.map((url) => openRedis({ url, clock })));
    for (const [index, { artifacts }] of services.entries()) {
      const writes = [put("Session", "k", 60_000, { accountId: "a", payload: { index } })];
      await artifacts.commit({ id: "same", deadline: clock.now() + 4500, writes });
    }
    await services[0]!.artifacts.removeByAccount({ accountId: "a" });
    const found = await Promise.all(services.map(({ artifacts }) => artifacts.find("Session", "k")));
    expect(found.map((one) => one?.payload)).toEqual([undefined, { index: 1 }, { index: 2 }]);
    const limit = { points: 1, seconds: 60 };
    const taken = await Promise.all(services.map(({ rateLimits }) => rateLimits("n", limit).take("k")));
    expect(taken.map(({ allowed }) => allowed)).toEqual([true, true, true]);
    await Promise.all(services.map((each) => each.close()));
  });

  it("of the usual artifact can be read; long and odd ones are hashed", async () => {
    await commit(
      put("AccessToken", "abc", 60_000, { accountId: "x".repeat(10_000), clientId: "a:b" }),
      put("Session", "\ud800", 60_000, { uid: "u" }),
    );
    const names = [...(await lives("*")).keys()].filter((name) => !name.includes("done:")).toSorted();
    expect(names).toEqual([
      "sign-in:artifact:AccessToken:abc",
      expect.stringMatching(/^sign-in:artifact:Session:~[\w-]{43}$/),
      expect.stringMatching(/^sign-in:by-account:~[\w-]{43}$/),
      expect.stringMatching(/^sign-in:by-client:~[\w-]{43}$/),
      "sign-in:by-uid:Session:u",
    ]);
  });
});

describe("what another process did", () => {
  it("counts: a batch that was written is not written again", async () => {
    const batch = {
      id: "batch",
      deadline: clock.now() + 4000,
      writes: [put("Session", "k", 60_000, { payload: { n: 1 } })],
    };
    await parts.artifacts.commit(batch);
    await commit(put("Session", "k", 60_000, { payload: { n: 2 } }));
    await parts.artifacts.commit(batch);
    await expect(parts.artifacts.find("Session", "k")).resolves.toMatchObject({ payload: { n: 2 } });
  });

  it("shares the points of a limit", async () => {
    const other = await openRedis({ url: redis.url, clock });
    const limit = { points: 10, seconds: 60 };
    const taken = await Promise.all(
      Array.from({ length: 40 }, (_, index) => (index % 2 ? parts : other).rateLimits("n", limit).take("k")),
    );
    expect(taken.filter(({ allowed }) => allowed)).toHaveLength(10);
    await other.close();
  });
});

function sessionWith(payload: Artifact["payload"]): Artifact {
  return artifact(clock, "Session", "s", { payload });
}

describe("two updates that add to one member", () => {
  it.each([
    ["{}", {}],
    ["quotes, brackets and backslashes", { 'a"b': "]}", "c\\": ['"', "\\", { d: [] }], "": {} }],
    [
      "numbers that Lua would write otherwise",
      { n: 9007199254740991, f: 1e-7, z: -0.5, big: 1e300, list: [] },
    ],
    ["any characters", { "\0": "\ud800", ż: "\u2028", e: "\ud83d\ude00" }],
    ["what is no object", { a: null, b: true, c: "x", d: [1, [2, [3]]] }],
  ])("change nothing else: %s", async (_title, entries) => {
    const around = { before: entries, authorizations: { first: entries }, after: [entries] };
    await commit({ kind: "put", artifact: sessionWith(around) });
    const changed = { ...around, before: "new", authorizations: { second: entries } };
    await commit({ kind: "update", artifact: sessionWith(changed), merge: "authorizations" });
    const expected = { ...changed, authorizations: { first: entries, second: entries } };
    await expect(parts.artifacts.find("Session", "s")).resolves.toMatchObject({ payload: expected });
    await commit({ kind: "update", artifact: sessionWith({ n: 1 }), merge: "authorizations" });
    const found = await parts.artifacts.find("Session", "s");
    expect(found?.payload).toEqual({ n: 1, authorizations: { first: entries, second: entries } });
    await commit({
      kind: "update",
      artifact: sessionWith({ ...around, authorizations: "text" }),
      merge: "none",
    });
    const last = await parts.artifacts.find("Session", "s");
    expect(last?.payload).toEqual({ ...around, authorizations: "text", none: {} });
  });
});
