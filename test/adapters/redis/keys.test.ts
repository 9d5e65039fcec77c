/** The keys in Redis: their names and expiry, and that nothing is left behind. */
import { randomUUID } from "node:crypto";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { RecordStore } from "../../../adapters/record-store.ts";
import type { Commit, RecordData } from "../../../adapters/record-store.ts";
import { openRedis } from "../../../adapters/redis/record-store.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { find, ManualClock, outcomes, ref, thing } from "../../../testing/storage/stage.ts";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { Wire } from "../../servers/wire.ts";
import { closing } from "../../closing.ts";

const clock = createSystemClock();
let redis: OwnRedis;
let opened: RecordStore;

beforeAll(async () => {
  redis = closing(await openOwnRedis());
});
beforeEach(async () => {
  opened = closing(await openRedis({ url: redis.url, clock }));
  await redis.client.flushall();
});

const commit = (change: Partial<Commit>, store = opened): Promise<void> =>
  store.commit({ id: randomUUID(), deadline: clock.now() + 4_500, ...change });
const index = (at: string): Pick<RecordData, "index"> => ({ index: [{ name: "all", at, order: 1 }] });

const ending = (milliseconds: number): Pick<RecordData, "expiresAt"> => ({
  expiresAt: clock.now() + milliseconds,
});

/** Keys with the milliseconds until they expire; -1 for a key that never does, -2 for one that just has. */
async function lives(pattern: string): Promise<ReadonlyMap<string, number>> {
  const names = await redis.client.keys(pattern);
  return new Map(
    await Promise.all(names.map(async (name) => [name, await redis.client.pttl(name)] as const)),
  );
}

describe("nothing is left behind", () => {
  it("when everything has expired, regardless of its history", async () => {
    const numbers = Array.from({ length: 12 }, (_, number) => number);
    await Promise.all(
      numbers.map((number) => {
        const parent = ref(`grant-${number}`);
        return commit({
          put: [
            thing(parent.key, { ...ending(3_000), ...index("grants") }),
            thing(`code-${number}`, { ...ending(1_000), parent }),
            thing(`token-${number}`, { ...ending(3_500), parent, ...index(`account-${number % 3}`) }),
          ],
        });
      }),
    );
    await commit({ put: [thing("grant-1", { ...ending(3_500), ...index("others") })] });
    await commit({ put: [thing("code-2", { ...ending(100), parent: ref("grant-2") })] });
    await commit({ remove: [ref("grant-3"), ref("token-4")] });
    await outcomes([commit({ expect: [{ ref: ref("none"), version: "present" }] })]);
    const all = await lives("*");
    expect(all.size).toBeGreaterThan(40);
    // The indexes wait for the sweep.
    const endless = [...all].filter(([name, left]) => left === -1 && !/^sign-in:(?:x:|dying$)/u.test(name));
    expect(endless).toEqual([]);
    expect([...all.keys()].filter((name) => !name.startsWith("sign-in:"))).toEqual([]);
    while ((await redis.client.dbsize()) > 0) {
      await opened.sweep(5, clock.now());
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  });

  it("of what was removed with its parent, at once", async () => {
    const child = thing("token", { parent: ref("grant"), ...index("account") });
    await commit({ put: [thing("grant", index("account")), child] });
    await commit({ remove: [ref("grant")] });
    expect(await redis.client.keys("sign-in:[rcx]:*")).toEqual([]);
  });

  it("in an index of what was refused because the memory is full", async () => {
    await commit({ put: [thing("old", index("x"))] });
    await redis.client.config("SET", "maxmemory", "1");
    // A commit that only removes records succeeds anyway.
    const results = await outcomes([
      commit({ put: [thing("new", index("y"))] }),
      commit({ remove: [ref("old")] }),
    ]);
    await redis.client.config("SET", "maxmemory", "0");
    expect(results[0]).toBe("storage_unavailable");
    expect(await redis.client.keys("sign-in:x:thing all y")).toEqual([]);
    expect(await find(opened, "new")).toBeUndefined();
    expect((await find(opened, "old")) === undefined).toBe(results[1] === "done");
  });
});

describe("names", () => {
  it("can be read, and stand under the prefix", async () => {
    const parent = ref("grant", "grant");
    await commit({
      id: "first",
      put: [{ ...thing("grant", index("ada")), kind: "grant" }, thing("token", { parent })],
    });
    await opened.next("people");
    expect(new Set(await redis.client.keys("*"))).toEqual(
      new Set(
        [
          "r:grant grant",
          "r:thing token",
          "c:first grant grant",
          "x:grant all ada",
          "m:first",
          "n:people",
        ].map((name) => `sign-in:${name}`),
      ),
    );
  });

  it("of a prefix and a database keep services apart in one Redis", async () => {
    const urls = [`${redis.url}?prefix=one:`, `${redis.url}?prefix=two:`, `${redis.url}/1?prefix=one:`];
    const services = await Promise.all(urls.map((url) => openRedis({ url, clock })));
    for (const [number, service] of services.entries()) {
      await commit({ id: "same", put: [thing("k", { value: { number }, ...index("x") })] }, service);
    }
    await commit({ remove: [ref("k")] }, services[0]);
    const found = await Promise.all(services.map((store) => find(store, "k")));
    expect(found.map((record) => record?.value)).toEqual([undefined, { number: 1 }, { number: 2 }]);
    const scanned = await Promise.all(services.map((store) => store.scan("thing", undefined, 9)));
    expect(scanned.map(({ records }) => records.length)).toEqual([0, 1, 1]);
    await Promise.all(services.map((store) => store.close()));
  });
});

it.each([1_000, 4e12])("times follow the clock of the service, also at %i", async (now) => {
  const own = new ManualClock(now);
  const other = await openRedis({ url: `${redis.url}?prefix=other:`, clock: own });
  const deadline = now + 4_500;
  await other.commit({ id: randomUUID(), deadline, put: [thing("k", { expiresAt: now + 60_000 })] });
  expect(await find(other, "k")).toMatchObject({ expiresAt: now + 60_000 });
  const [left] = (await lives("other:r:thing k")).values();
  expect(left).toBeGreaterThan(50_000);
  expect(left).toBeLessThanOrEqual(60_000);
  own.advance(60_000);
  expect(await find(other, "k")).toBeUndefined();
  await other.close();
});

it("a commit that was written is not written again, even if another process has written since", async () => {
  const first = { id: "first", put: [thing("k", { value: { n: 1 } })] };
  await commit(first);
  await commit({ put: [thing("k", { value: { n: 2 } })] });
  await commit(first);
  expect((await find(opened, "k"))?.value).toEqual({ n: 2 });
});

it("a key of the wrong type fails alone", async () => {
  await redis.client.set("sign-in:r:thing spoilt", "no hash");
  const results = await outcomes([
    commit({ put: [thing("a")] }),
    find(opened, "spoilt"),
    commit({ put: [thing("spoilt")] }),
    commit({ put: [thing("b")] }),
  ]);
  expect(results).toEqual(["done", "storage_unavailable", "storage_unavailable", "done"]);
});

describe("a primary that has become a replica", () => {
  afterEach(() => redis.client.replicaof("NO", "ONE"));

  it("is unhealthy, and the connection moves to the primary that has its address by then", async () => {
    const other = await openOwnRedis();
    const wire = await Wire.to(Number(new URL(redis.url).port));
    const service = await openRedis({ url: `redis://127.0.0.1:${wire.port}`, clock });
    await service.ping();
    await redis.client.replicaof("127.0.0.1", 1);
    wire.leadTo(Number(new URL(other.url).port));
    await expect(service.ping()).rejects.toMatchObject({ message: "Redis answered READONLY" });
    while ((await outcomes([commit({ put: [thing("k")] }, service)]))[0] !== "done") {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await expect(other.client.exists("sign-in:r:thing k")).resolves.toBe(1);
    await service.close();
    await Promise.all([wire.close(), other.close()]);
  });
});
