import { afterAll, afterEach, beforeAll, beforeEach, expect, it, jest } from "@jest/globals";
import { TIME_SLICE } from "../../../notifier/scheduler.ts";
import { type BullStage, openBullStage, until } from "./stage.ts";
import { openOwnRedis, type OwnRedis } from "../../servers/redis.ts";

jest.setTimeout(60_000);

const SHARE = 3;

let redis: OwnRedis;
let stage: BullStage;
beforeAll(async () => {
  redis = await openOwnRedis();
});
afterAll(() => redis.close());
beforeEach(async () => {
  await redis.client.flushall();
});
afterEach(() => stage.close());

async function open(perReceiver: number): Promise<void> {
  stage = await openBullStage({ concurrency: { total: 50, perReceiver } });
  for (const service of ["1", "2"]) await stage.receiver(service);
  stage.answer = ({ id }) => (id.startsWith("dead") ? new Promise<number>(() => undefined) : 200);
}

/** How many jobs there are for the first receiver, in whatever state. */
async function places(): Promise<number> {
  const keys = await redis.client.keys("sign-in-service:deliveries:service.1-*");
  return keys.filter((key) => !key.endsWith(":lock")).length;
}

const arrived = (id: string) => () => stage.posted.some((post) => post.id === id);

it("a receiver has at most twice its share of wake-ups, however many workers there are", async () => {
  await open(SHARE);
  await stage.add(...Array.from({ length: 400 }, (_, index) => `dead-${index}@1/u${index}`));
  const workers = await Promise.all(Array.from({ length: 5 }, () => stage.worker(redis.url, 20)));
  for (const { scheduler } of workers) scheduler.start();
  const seen: number[] = [];
  for (let round = 0; round < 40; round += 1) {
    await stage.add(`well-${round}@2/u${round}`);
    for (const { scheduler } of workers) scheduler.wake();
    await until(arrived(`well-${round}`));
    seen.push(await places());
  }
  await until(async () => (await places()) === 2 * SHARE);
  expect(Math.max(...seen)).toBeLessThanOrEqual(2 * SHARE);
  // They are all in use: two workers' worth of them.
  await until(() => stage.posted.filter(({ id }) => id.startsWith("dead")).length === 2 * SHARE);
});

it("receivers that hang leave a slot in the worker for the next receiver, however many they are", async () => {
  stage = await openBullStage({ concurrency: { total: 10, perReceiver: 4 } });
  for (const service of ["1", "2", "3", "4"]) await stage.receiver(service);
  stage.answer = ({ id }) => (id.startsWith("dead") ? new Promise<number>(() => undefined) : 200);
  const dead = ["1", "2", "3"].flatMap((to) =>
    Array.from({ length: 9 }, (_, at) => `dead-${to}-${at}@${to}/u${at}`),
  );
  await stage.add(...dead);
  const { scheduler } = await stage.worker(redis.url);
  scheduler.start();
  // Two use their share and leave two slots: one for the third, one for any other.
  await until(() => stage.posted.length === 9);
  await stage.add("well@4/u");
  scheduler.wake();
  await until(arrived("well"));
  expect(stage.posted).toHaveLength(10);
});

it("processes that schedule at the same moment schedule no more than there is to send", async () => {
  await open(SHARE);
  const apps = await Promise.all(Array.from({ length: 8 }, () => stage.worker(redis.url)));
  await stage.add("d1@1/a", "d2@1/b");
  for (let round = 0; round < 20; round += 1) for (const { scheduler } of apps) scheduler.wake();
  await until(async () => (await places()) === 2);
  for (const app of apps) await app.end();
  expect(await places()).toBe(2);
  expect(await redis.client.keys("sign-in-service:places:*")).toEqual([]);
});

it("a wake-up at a worker without a free slot for the receiver moves to a worker that has one", async () => {
  await open(1);
  const workers = [await stage.worker(redis.url), await stage.worker(redis.url)];
  for (const { scheduler } of workers) scheduler.start();
  await stage.add("dead@1/u");
  workers[0]?.scheduler.wake();
  await until(arrived("dead"));
  for (let round = 0; round < 8; round += 1) {
    await stage.add(`well-${round}@1/u${round}`);
    workers[round % 2]?.scheduler.wake();
    await until(arrived(`well-${round}`));
  }
  expect(stage.posted).toHaveLength(9);
});

it("a worker without a free slot for the receiver does not poll its wake-ups", async () => {
  await open(1);
  const { scheduler } = await stage.worker(redis.url);
  scheduler.start();
  await stage.add("dead@1/u", "well@1/v");
  scheduler.wake();
  await until(arrived("dead"));
  const events = (): Promise<number> => redis.client.xlen("sign-in-service:deliveries:events");
  await until(async () => (await places()) === 2);
  const before = await events();
  await new Promise((resolve) => setTimeout(resolve, 2500));
  // Ten passes at most, some events each.
  expect((await events()) - before).toBeLessThan(100);
  expect(stage.posted).toHaveLength(1);
});

it("deliveries that a worker has not sent before its end go to another worker, without a new wake-up", async () => {
  await open(1);
  const workers = [await stage.worker(redis.url), await stage.worker(redis.url)];
  workers[0]?.scheduler.start();
  await stage.add("dead@1/u", "well@1/v");
  workers[0]?.scheduler.wake();
  await until(arrived("dead"));
  workers[1]?.scheduler.start();
  await until(arrived("well"));
  stage.answer = () => 200;
  await workers[0]?.end();
  await stage.nothingWaits();
  expect(stage.posted.map(({ id }) => id)).toEqual(["dead", "well", "dead"]);
});

/** Answers well after so many milliseconds. */
const slowly = (milliseconds: number) => () =>
  new Promise<number>((resolve) => void setTimeout(() => resolve(200), milliseconds));

const MANY = Array.from({ length: 40 }, (_, index) => `one${index}`);

it("a wake-up covers more than one delivery while there are slots for others", async () => {
  await open(1);
  stage.answer = slowly(TIME_SLICE / 8);
  const worker = await stage.worker(redis.url);
  await stage.add(...MANY.map((id) => `${id}@1/${id}`));
  const began = performance.now();
  worker.scheduler.start();
  await stage.nothingWaits();
  const turns = (performance.now() - began) / TIME_SLICE;
  const stream = await redis.client.xrange("sign-in-service:deliveries:events", "-", "+");
  const added = stream.filter(([, fields]) => fields[1] === "added");
  // One for each place, and far fewer than one a turn.
  expect(turns).toBeGreaterThan(4);
  expect(added.length).toBeLessThanOrEqual(2 + turns / 4);
  expect(stage.posted).toHaveLength(MANY.length);
});

it("a receiver with many deliveries frees its slot after a time slice when there is no other slot", async () => {
  stage = await openBullStage({ concurrency: { total: 1, perReceiver: 1 } });
  for (const service of ["1", "2"]) await stage.receiver(service);
  stage.answer = slowly(TIME_SLICE / 8);
  const worker = await stage.worker(redis.url);
  await stage.add(...MANY.map((id) => `${id}@1/${id}`));
  worker.scheduler.start();
  await until(() => stage.posted.length > 0);
  await stage.add("other@2/u");
  worker.scheduler.wake();
  await stage.nothingWaits();
  const order = stage.posted.map(({ id }) => id);
  expect(order).toHaveLength(MANY.length + 1);
  expect(order.indexOf("other")).toBeLessThan(MANY.length);
});

it("a worker that ends leaves its wake-up to other workers, however long its last attempt took", async () => {
  await open(1);
  const last = Promise.withResolvers<number>();
  stage.answer = () => last.promise;
  const worker = await stage.worker(redis.url);
  worker.scheduler.start();
  await stage.add("first@1/u", "next@1/u");
  worker.scheduler.wake();
  await until(arrived("first"));
  const ended = worker.end(60_000);
  // Longer than one receiver keeps a place while others wait: what comes then is no turn to go on with.
  await new Promise((resolve) => setTimeout(resolve, 2 * TIME_SLICE));
  last.resolve(200);
  await ended;
  expect(stage.posted.map(({ id }) => id)).toEqual(["first"]);
  await expect(stage.waiting()).resolves.toBe(1);
  await expect(places()).resolves.toBe(1);
  // Nobody looks: the wake-up alone brings it to the next one.
  const dueReceivers = jest.spyOn(stage.storage.deliveries, "dueReceivers").mockResolvedValue([]);
  (await stage.worker(redis.url)).scheduler.start();
  await stage.nothingWaits();
  dueReceivers.mockRestore();
  expect(stage.posted.map(({ id }) => id)).toEqual(["first", "next"]);
});

it("slots that a process reserved and never used become free", async () => {
  await open(1);
  const soon = Date.now() + 1000;
  await redis.client.zadd("sign-in-service:places:service:1", soon, "0", soon, "1");
  const { scheduler } = await stage.worker(redis.url, 50);
  scheduler.start();
  await stage.add("d1@1/a");
  await stage.nothingWaits();
  expect(stage.posted).toHaveLength(1);
});

it("slots of a process that died delay no delivery until the next minute", async () => {
  await open(SHARE);
  await stage.add("d1@1/a", "d2@2/b");
  // Both receivers' places are taken, and the jobs will never come.
  for (const receiver of ["service:1", "service:2"]) {
    const members = Array.from({ length: 2 * SHARE }, (_, place) => [Date.now() + 500, place]);
    await redis.client.zadd(`sign-in-service:places:${receiver}`, ...members.flat());
  }
  const { scheduler } = await stage.worker(redis.url);
  scheduler.start();
  await stage.nothingWaits();
  expect(stage.posted.map(({ id }) => id).toSorted()).toEqual(["d1", "d2"]);
});

it("wake-ups that Redis has lost, but not their jobs, leave no delivery behind", async () => {
  await open(SHARE);
  const app = await stage.worker(redis.url);
  await stage.add("d1@1/a", "d2@2/b");
  app.scheduler.wake();
  const queue = "sign-in-service:deliveries:";
  await until(async () => (await redis.client.llen(`${queue}wait`)) === 2);
  // As a Redis does that may evict keys.
  await redis.client.del(`${queue}wait`, `${queue}marker`);
  // The other receiver's places are all taken by jobs that have begun and are nowhere.
  for (let place = 0; place < 2 * SHARE; place += 1) {
    await redis.client.hset(`${queue}service.2-${place}`, { name: "look", processedOn: 1 });
  }
  const { scheduler } = await stage.worker(redis.url);
  scheduler.start();
  await stage.nothingWaits();
  expect(stage.posted.map(({ id }) => id).toSorted()).toEqual(["d1", "d2"]);
  await until(async () => (await redis.client.keys(`${queue}service.*`)).length === 0);
});
