import { createServer, type AddressInfo } from "node:net";
import { beforeAll, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { type BullStage, openBullStage, until, wakeUps } from "./stage.ts";
import { openOwnRedis, type OwnRedis } from "../../servers/redis.ts";
import { closing } from "../../closing.ts";

jest.setTimeout(60_000);

let redis: OwnRedis;
let stage: BullStage;
beforeAll(async () => {
  redis = closing(await openOwnRedis());
});
beforeEach(async () => {
  await redis.client.flushall();
  await redis.client.config("SET", "maxmemory-policy", "noeviction");
  stage = closing(await openBullStage());
  for (const service of ["1", "2"]) await stage.receiver(service);
});

/** Never changes: servers of both versions use one queue during an upgrade. */
const JOB_OF_0_3_0 = JSON.stringify({
  name: "look",
  data: '{"receiver":"service:1"}',
  opts: '{"removeOnFail":true,"removeOnComplete":true,"de":{"id":"service:1","keepLastIfActive":true},"attempts":0}',
});

const USERS = Array.from({ length: 30 }, (_, index) => `u${index}`);
const ROUNDS = [1, 2, 3, 4];

/** Four deliveries of each user to each of two receivers. */
const everything = (): Promise<void> =>
  stage.add(
    ...ROUNDS.flatMap((round) =>
      USERS.flatMap((user) => ["1", "2"].map((to) => `${to}-${user}-${round}@${to}/${user}`)),
    ),
  );

/** The ids of each lane in the order in which they arrived first. */
function firstArrivals(): string[] {
  const ids = [...new Set(stage.posted.map(({ id }) => id))];
  return ["1", "2"].flatMap((to) =>
    USERS.flatMap((user) => ids.filter((id) => id.startsWith(`${to}-${user}-`))),
  );
}

const inOrder = ["1", "2"].flatMap((to) =>
  USERS.flatMap((user) => ROUNDS.map((round) => `${to}-${user}-${round}`)),
);

describe("over Redis", () => {
  it("deliveries of a user arrive in order, once each, with two workers and failures", async () => {
    const failed = new Map<string, number>();
    // One in seven fails, but none so often that it is given up.
    stage.answer = ({ id }) => {
      const times = failed.get(id) ?? 0;
      if (stage.posted.length % 7 !== 0 || times === 3) return 200;
      failed.set(id, times + 1);
      return 500;
    };
    const workers = [await stage.worker(redis.url), await stage.worker(redis.url)];
    for (const { scheduler } of workers) scheduler.start();
    await everything();
    workers[0]?.scheduler.wake();
    await stage.nothingWaits();
    expect(firstArrivals()).toEqual(inOrder);
    expect(stage.posted).toHaveLength(
      inOrder.length + [...failed.values()].reduce((all, times) => all + times, 0),
    );
  });

  it("a process that only stores deliveries wakes a worker in another process", async () => {
    const [app, worker] = [await stage.worker(redis.url), await stage.worker(redis.url)];
    worker.scheduler.start();
    await until(async () => ((await redis.client.client("LIST")) as string).includes("bzpopmin"));
    await stage.add("d1@1/a");
    app.scheduler.wake();
    await stage.nothingWaits();
    expect(stage.posted.map(({ id }) => id)).toEqual(["d1"]);
  });

  it("a job is what 0.3.0 wrote, and is served [D-UP-13]", async () => {
    const [app, worker] = [await stage.worker(redis.url), await stage.worker(redis.url)];
    await stage.add("d1@1/a");
    app.scheduler.wake();
    await until(async () => (await wakeUps(redis.client)).length > 0);
    const keys = await redis.client.keys("sign-in-service:deliveries:*");
    const job = keys.find((key) => /deliveries:\d+$/u.test(key)) ?? "";
    const { name, data, opts } = await redis.client.hgetall(job);
    const written = JSON.stringify({ name, data, opts });
    if (written !== JOB_OF_0_3_0)
      throw new Error(
        `a job is now ${written}: workers of the version before must understand it, and those of this one jobs of 0.3.0. Read both for one minor version, see docs/internals/changing-the-format.md`,
      );
    worker.scheduler.start();
    await stage.nothingWaits();
    await until(async () => (await wakeUps(redis.client)).length === 0);
    expect(stage.posted.map(({ id }) => id)).toEqual(["d1"]);
  });

  it("a Redis that is emptied meanwhile loses no delivery", async () => {
    let posts = 0;
    stage.answer = async () => {
      posts += 1;
      if (posts % 40 === 20) await redis.client.flushall();
      return 200;
    };
    const { scheduler } = await stage.worker(redis.url, 200);
    scheduler.start();
    await everything();
    await stage.nothingWaits();
    expect(firstArrivals()).toEqual(inOrder);
    expect(stage.posted).toHaveLength(inOrder.length);
  });

  it("deliveries that are due and not scheduled are found without a wake-up", async () => {
    const { scheduler } = await stage.worker(redis.url, 100);
    scheduler.start();
    await stage.add("d1@1/a");
    await stage.nothingWaits();
    expect(stage.posted).toHaveLength(1);
  });

  it("a Redis that is stopped and comes back empty is reported as one fault, and delivery continues", async () => {
    const { scheduler } = await stage.worker(redis.url, 50);
    scheduler.start();
    await stage.add("d1@1/a");
    await stage.nothingWaits();
    await redis.stop();
    await stage.add("d2@1/a", "d3@2/b");
    scheduler.wake();
    await until(() => !scheduler.ok && stage.faults.length === 1);
    await redis.start();
    await stage.nothingWaits();
    expect(stage.posted.map(({ id }) => id).toSorted()).toEqual(["d1", "d2", "d3"]);
    await until(() => scheduler.ok);
    expect(stage.faults).toEqual([expect.objectContaining({ work: "using the queue", failures: 1 })]);
    expect(stage.healed).toEqual([expect.objectContaining({ failures: expect.any(Number) })]);
  });

  it("a receiver that hangs has at most two wake-ups, and delays no other receiver", async () => {
    await stage.add(...Array.from({ length: 500 }, (_, index) => `dead-${index}@1/u${index}`));
    stage.answer = ({ id }) => (id.startsWith("dead") ? new Promise<number>(() => undefined) : 200);
    const { scheduler } = await stage.worker(redis.url, 20);
    scheduler.start();
    await until(() => stage.posted.length === 10);
    const most: number[] = [];
    for (let round = 0; round < 40; round += 1) {
      await stage.add(`well-${round}@2/u${round}`);
      scheduler.wake();
      await until(() => stage.posted.some(({ id }) => id === `well-${round}`));
      most.push((await wakeUps(redis.client)).filter((data) => data.includes("service:1")).length);
    }
    expect(Math.max(...most)).toBeLessThanOrEqual(2);
    expect(Math.max(...most)).toBeGreaterThan(0);
    expect(stage.posted.filter(({ id }) => id.startsWith("dead"))).toHaveLength(10);
  });

  it("a job has the name of a receiver and nothing else, and Redis has no personal data", async () => {
    const app = await stage.worker(redis.url);
    await stage.add("d1@1/person", "d2@1/person");
    app.scheduler.wake();
    await until(async () => (await wakeUps(redis.client)).length === 1);
    expect(await wakeUps(redis.client)).toEqual(['{"receiver":"service:1"}']);
    const keys = await redis.client.keys("*");
    expect(JSON.stringify(keys)).not.toContain("person");
    for (const key of keys.filter((each) => /deliveries:\d+$/u.test(each)))
      expect(JSON.stringify(await redis.client.hgetall(key))).not.toContain("person");
  });

  it("a worker that ends releases deliveries in flight, and another worker sends them again", async () => {
    await stage.add("d1@1/a", "d2@1/a");
    stage.answer = () => new Promise<number>(() => undefined);
    const first = await stage.worker(redis.url);
    first.scheduler.start();
    await until(() => stage.posted.length === 1);
    await first.end();
    await expect(stage.storage.deliveries.find("d1")).resolves.toMatchObject({
      state: "waiting",
      attempts: 0,
    });
    stage.answer = () => 200;
    (await stage.worker(redis.url)).scheduler.start();
    await stage.nothingWaits();
    expect(stage.posted.map(({ id }) => id)).toEqual(["d1", "d1", "d2"]);
  });
});

describe("at the start", () => {
  it("a Redis that may evict keys causes a warning, and another one does not", async () => {
    await stage.worker(redis.url);
    expect(stage.warnings).toEqual([]);
    await redis.client.config("SET", "maxmemory-policy", "allkeys-lru");
    await stage.worker(redis.url);
    expect(stage.warnings).toEqual([expect.stringMatching(/config\.queue .*allkeys-lru.*noeviction/u)]);
  });

  it("a missing Redis is an error that says so, without its password", async () => {
    const opening = stage.worker("redis://:secret@127.0.0.1:1");
    await expect(opening).rejects.toMatchObject({
      code: "storage_unavailable",
      message: "the Redis of config.queue can't be used (ECONNREFUSED)",
    });
  });

  it("a Redis that never responds is an error", async () => {
    const silent = createServer((socket) => void socket.resume());
    await new Promise<void>((resolve) => void silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as AddressInfo;
    await expect(stage.worker(`redis://127.0.0.1:${port}`)).rejects.toMatchObject({
      code: "storage_unavailable",
    });
    await new Promise((resolve) => void silent.close(resolve));
  });
});
