/** What is asked in one turn of the event loop and goes to Redis as one command. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, it } from "@jest/globals";
import type { Artifact, ArtifactWrite } from "../../../adapters/artifacts.ts";
import { openRedis, type RedisParts } from "../../../adapters/redis/index.ts";
import { createSystemClock } from "../../../lib/clock.ts";
import { artifact, outcomes } from "../../../lib/testing/contract/stage.ts";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";

const clock = createSystemClock();
let redis: OwnRedis;
let parts: RedisParts;

beforeAll(async () => {
  redis = await openOwnRedis();
  parts = await openRedis({ url: redis.url, clock });
});
afterAll(async () => {
  await parts.close();
  await redis.close();
});
beforeEach(async () => {
  await redis.client.flushall();
});

function commit(...writes: ArtifactWrite[]): Promise<void> {
  return parts.artifacts.commit({ id: randomUUID(), deadline: clock.now() + 4500, writes });
}

const put = (model: string, key: string, more: Partial<Artifact> = {}): ArtifactWrite => ({
  kind: "put",
  artifact: artifact(clock, model, key, more),
});
const numbers = Array.from({ length: 8 }, (_, index) => index);

/** How many commands Redis was sent. */
async function sent(): Promise<number> {
  const stats = await redis.client.info("commandstats");
  return Number(/cmdstat_evalsha:calls=(\d+)/u.exec(stats)?.[1] ?? 0);
}

it("is answered to each asker by itself, from one command", async () => {
  await Promise.all(numbers.map((number) => commit(put("Session", `k${number}`, { payload: { number } }))));
  const before = await sent();
  const found = await Promise.all(numbers.map((number) => parts.artifacts.find("Session", `k${number}`)));
  expect(found.map((one) => one?.payload["number"])).toEqual(numbers);
  expect((await sent()) - before).toBe(1);
});

it("has conditions of its own: what one commit refuses the others have written", async () => {
  await commit(put("Session", "code"));
  const results = await outcomes(
    numbers.map((number) =>
      commit(
        { kind: "consume", model: "Session", key: "code", at: clock.now() },
        put("Session", `token${number}`),
      ),
    ),
  );
  expect(results.filter((result) => result === undefined)).toHaveLength(1);
  expect(results.filter((result) => result === "condition_failed")).toHaveLength(7);
  const tokens = numbers.map((number) => parts.artifacts.find("Session", `token${number}`));
  expect((await Promise.all(tokens)).map((one) => one !== undefined)).toEqual(
    results.map((result) => result === undefined),
  );
});

it("fails alone where a key is not what it should be", async () => {
  await redis.client.set("sign-in:artifact:Session:spoilt", "no hash");
  const results = await outcomes([
    commit(put("Session", "a")),
    parts.artifacts.find("Session", "spoilt"),
    commit(put("Session", "spoilt")),
    commit(put("Session", "b", { accountId: "ada" })),
  ]);
  expect(results).toEqual([undefined, "storage_unavailable", "storage_unavailable", undefined]);
  await expect(parts.artifacts.find("Session", "a")).resolves.toBeDefined();
  await expect(parts.artifacts.listByAccount({ accountId: "ada" })).resolves.toHaveLength(1);
});

it("is refused as a whole where an index is not what it should be, and asked again is refused again", async () => {
  await redis.client.set("sign-in:by-account:ada", "no sorted set");
  const batch = {
    id: "twice",
    deadline: clock.now() + 4500,
    writes: [put("Session", "a", { accountId: "ada" })],
  };
  const attempt = (): Promise<void> => parts.artifacts.commit(batch);
  await expect(attempt()).rejects.toMatchObject({ code: "storage_unavailable" });
  await expect(attempt()).rejects.toMatchObject({ code: "storage_unavailable" });
  await redis.client.del("sign-in:by-account:ada");
  await expect(attempt()).resolves.toBeUndefined();
  await expect(parts.artifacts.listByAccount({ accountId: "ada" })).resolves.toHaveLength(1);
});

it("is in the order in which it was asked: a later one sees what an earlier one did", async () => {
  const names = { grantKey: "g", accountId: "ada", clientId: "c" };
  const results = await outcomes([
    commit(put("Grant", "g", names)),
    commit(put("AccessToken", "t", names)),
    expect(parts.artifacts.findWithGrant("AccessToken", "t")).resolves.toMatchObject({ grant: { key: "g" } }),
    commit({ kind: "revoke", grantKey: "g" }),
    commit(put("AccessToken", "later", names), { kind: "require", model: "Grant", key: "g" }),
  ]);
  expect(results).toEqual([undefined, undefined, undefined, undefined, "condition_failed"]);
  // The token of the same turn went with its family, and no index leads to it.
  await expect(redis.client.keys("sign-in:[ab]*")).resolves.toEqual([]);
});

it("leaves nothing in an index of what the same turn puts and removes", async () => {
  const names = { accountId: "ada", clientId: "c" };
  await Promise.all([
    commit(put("Session", "s", names)),
    commit({ kind: "remove", model: "Session", key: "s", mustExist: true }),
    commit(put("Session", "other", names)),
    commit({ kind: "update", artifact: artifact(clock, "Session", "other", { accountId: "eve" }) }),
  ]);
  await expect(redis.client.zrange("sign-in:by-account:eve", "0", "-1")).resolves.toEqual(["Session:other"]);
  await expect(redis.client.keys("sign-in:by-*")).resolves.toEqual(["sign-in:by-account:eve"]);
});

it("leaves nothing in an index of what was refused because the memory is full", async () => {
  await commit(put("Session", "old", { accountId: "ada" }));
  await redis.client.config("SET", "maxmemory", "1");
  // What only removes is done all the same; from there on Redis takes what the script writes.
  const results = await outcomes([
    commit(put("Session", "new", { accountId: "eve" })),
    commit({ kind: "remove", model: "Session", key: "old", mustExist: true }),
  ]);
  await redis.client.config("SET", "maxmemory", "0");
  expect(results).toEqual(["storage_unavailable", undefined]);
  await expect(redis.client.keys("sign-in:[ab]*")).resolves.toEqual([]);
});
