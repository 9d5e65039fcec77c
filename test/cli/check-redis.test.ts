import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { ArtifactWrite } from "../../adapters/artifacts.ts";
import { openStorage } from "../../lib/storage.ts";
import { createSystemClock } from "../../lib/clock.ts";
import { hostileKeys } from "../../lib/testing/contract/stage.ts";
import { ROOT } from "../examples/documents.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { type Outcome, runHere, Workshop } from "./stage.ts";

const workshop = new Workshop();
const clock = createSystemClock();
const path = workshop.path();
let redis: OwnRedis;

beforeAll(async () => {
  redis = await openOwnRedis();
});
afterAll(async () => {
  await redis.close();
  workshop.remove();
});

function check(...options: string[]): Promise<Outcome> {
  return runHere(["storage", "check", `sqlite:${path}`, "--artifacts", redis.url, ...options]);
}

/** The rules that a page of the documentation has in this place. */
function rightsIn(page: string, place: RegExp): string[] {
  const text = readFileSync(join(ROOT, "docs", page), "utf8");
  return place.exec(text)?.[1]?.split(" ") ?? [];
}

const ID = "Session:one";
const ACCOUNT = "sign-in:by-account:ada@example.com";

/** Artifacts of every kind, some with hostile names. */
async function fill(): Promise<void> {
  await redis.client.flushall();
  const storage = await openStorage({ storage: `sqlite:${path}`, artifacts: redis.url, clock });
  const put = (model: string, key: string, name: string): ArtifactWrite => ({
    kind: "put",
    artifact: {
      model,
      key,
      payload: { key },
      expiresAt: clock.now() + 3_600_000,
      grantKey: name,
      uid: `uid-${key}`,
      accountId: name,
      clientId: name,
    },
  });
  const writes = [
    put("Session", "one", "ada@example.com"),
    put("AccessToken", "two", "ada@example.com"),
    ...hostileKeys.map((key) => put("AccessToken", key, key)),
  ];
  await storage.artifacts.commit({ id: "all", deadline: clock.now() + 5000, writes });
  await storage.close();
}

/** All keys with what is in them and how long they live, in seconds. */
async function contents(): Promise<unknown> {
  const keys = (await redis.client.keys("sign-in:[ab]*")).toSorted();
  return Promise.all(
    keys.map(async (key) => {
      const seconds = Math.round((await redis.client.pttl(key)) / 60_000);
      const isHash = key.startsWith("sign-in:artifact:");
      const held = isHash
        ? await redis.client.hgetall(key)
        : await redis.client.zrange(key, "0", "-1", "WITHSCORES");
      return [key, seconds, held];
    }),
  );
}

type Damage = readonly [name: string, plant: () => Promise<unknown>, says: RegExp];

const LOST = /artifacts: 1 artifacts that their indexes do not lead to \(Session …on:one\)/;
const STRAY = /artifacts: 1 indexes that lead to what is not there/;

const damages: readonly Damage[] = [
  ["an index has lost an artifact", () => redis.client.zrem(ACCOUNT, ID), LOST],
  ["an index is gone", () => redis.client.del("sign-in:by-uid:Session:uid-one"), LOST],
  ["an index has another time", () => redis.client.zadd(ACCOUNT, "99", ID), LOST],
  ["an artifact does not end", () => redis.client.persist(`sign-in:artifact:${ID}`), LOST],
  [
    "an index ends too early",
    () => redis.client.expire(ACCOUNT, 60),
    /artifacts: 2 artifacts that their indexes do not lead to/,
  ],
  [
    "an index leads to nothing",
    () => redis.client.zadd(ACCOUNT, String(clock.now() + 1e6), "Session:x"),
    STRAY,
  ],
  [
    "an index leads to another's",
    () => redis.client.zadd("sign-in:by-client:x", String(clock.now() + 1e6), ID),
    STRAY,
  ],
];

describe("storage check with artifacts in Redis", () => {
  beforeEach(fill);

  it("finds nothing wrong with what a service has written", async () => {
    const before = await contents();
    await expect(check()).resolves.toMatchObject({ code: 0 });
    await expect(check("--repair")).resolves.toMatchObject({ code: 0 });
    await expect(contents()).resolves.toEqual(before);
  });

  it.each(damages)(
    "reports that %s, changes nothing, and puts it right when it is told to",
    async (_, plant, says) => {
      const before = await contents();
      await plant();
      const damaged = await contents();
      expect(damaged).not.toEqual(before);
      const { code, said } = await check();
      expect([code, said]).toEqual([1, expect.stringMatching(says)]);
      expect(said).not.toContain("ada@");
      await expect(contents()).resolves.toEqual(damaged);
      const repaired = await check("--repair");
      expect([repaired.code, repaired.said]).toEqual([0, expect.stringMatching(/: repaired$/m)]);
      await expect(contents()).resolves.toEqual(before);
    },
  );

  it("needs of a user what the documentation says", async () => {
    const service = rightsIn("redis.md", /^ACL SETUSER sign-in (.+)$/mu);
    const more = rightsIn("moving.md", /for `storage check` `([^`]+)`/u);
    expect(more.length).toBeGreaterThan(2);
    const allow = (...rules: string[]) => redis.client.call("ACL", "SETUSER", "sign-in", ...rules);
    await allow(...service, ...more);
    const url = redis.url.replace("//", "//sign-in:password@");
    const look = () => runHere(["storage", "check", `sqlite:${path}`, "--artifacts", url]);
    await expect(look()).resolves.toMatchObject({ code: 0 });
    for (const rule of more) {
      await allow(rule.replace("+", "-"));
      const { code, said } = await look();
      expect([code, said]).toEqual([1, expect.stringContaining("Redis answered NOPERM")]);
      await allow(rule);
    }
  });

  it("names a Redis that forgets keys when its memory is full", async () => {
    await redis.client.config("SET", "maxmemory-policy", "allkeys-lru");
    const { code, said } = await check("--repair");
    await redis.client.config("SET", "maxmemory-policy", "noeviction");
    expect(code).toBe(1);
    expect(said).toMatch(/artifacts: 1 settings that are wrong \(.*maxmemory-policy allkeys-lru/);
  });
});
