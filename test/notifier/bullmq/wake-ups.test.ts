import { beforeAll, beforeEach, expect, it, jest } from "@jest/globals";
import { TIME_SLICE_MS } from "../../../notifier/poller.ts";
import { type BullStage, openBullStage, until, wakeUps } from "./stage.ts";
import { openOwnRedis, type OwnRedis } from "../../servers/redis.ts";
import { closing } from "../../closing.ts";

jest.setTimeout(60_000);

const SHARE = 3;

let redis: OwnRedis;
let stage: BullStage;
beforeAll(async () => {
  redis = closing(await openOwnRedis());
});
beforeEach(async () => {
  await redis.client.flushall();
});

async function open(perReceiver: number): Promise<void> {
  stage = closing(await openBullStage({ concurrency: { total: 50, perReceiver } }));
  for (const service of ["1", "2"]) await stage.receiver(service);
  stage.answer = ({ id }) => (id.startsWith("dead") ? new Promise<number>(() => undefined) : 200);
}

/** How many wake-ups of the first receiver wait or are being served. */
async function firstWakeUps(): Promise<number> {
  return (await wakeUps(redis.client)).filter((data) => data.includes("service:1")).length;
}

const arrived = (id: string) => () => stage.posted.some((post) => post.id === id);

it("a receiver has at most two wake-ups, however many workers there are", async () => {
  await open(SHARE);
  await stage.add(...Array.from({ length: 400 }, (_, index) => `dead-${index}@1/u${index}`));
  const workers = await Promise.all(Array.from({ length: 5 }, () => stage.worker(redis.url, 20)));
  for (const { scheduler } of workers) scheduler.start();
  const seen: number[] = [];
  for (let round = 0; round < 40; round += 1) {
    await stage.add(`well-${round}@2/u${round}`);
    for (const { scheduler } of workers) scheduler.wake();
    await until(arrived(`well-${round}`));
    seen.push(await firstWakeUps());
  }
  expect(Math.max(...seen)).toBeLessThanOrEqual(2);
  // Every worker sends its share.
  await until(() => stage.posted.filter(({ id }) => id.startsWith("dead")).length === 5 * SHARE);
});

it("receivers that hang leave a slot in the worker for the next receiver, however many they are", async () => {
  stage = closing(await openBullStage({ concurrency: { total: 10, perReceiver: 4 } }));
  for (const service of ["1", "2", "3", "4"]) await stage.receiver(service);
  stage.answer = ({ id }) => (id.startsWith("dead") ? new Promise<number>(() => undefined) : 200);
  const dead = ["1", "2", "3"].flatMap((to) =>
    Array.from({ length: 9 }, (_, at) => `dead-${to}-${at}@${to}/u${at}`),
  );
  await stage.add(...dead);
  const { scheduler } = await stage.worker(redis.url);
  scheduler.start();
  // They leave two slots, which are for receivers without one.
  await until(() => stage.posted.length === 8);
  await stage.add("well@4/u");
  scheduler.wake();
  await until(arrived("well"));
  expect(stage.posted).toHaveLength(9);
});

it("processes that look at the same moment request one wake-up", async () => {
  await open(SHARE);
  const apps = await Promise.all(Array.from({ length: 8 }, () => stage.worker(redis.url)));
  await stage.add("d1@1/a", "d2@1/b");
  for (let round = 0; round < 20; round += 1) for (const { scheduler } of apps) scheduler.wake();
  await until(async () => (await firstWakeUps()) === 1);
  for (const app of apps) await app.end();
  expect(await firstWakeUps()).toBe(1);
});

it("a wake-up that comes while the receiver is being served is not lost", async () => {
  await open(SHARE);
  const [app, worker] = [await stage.worker(redis.url), await stage.worker(redis.url)];
  worker.scheduler.start();
  for (let round = 0; round < 50; round += 1) {
    await stage.add(`well-${round}@1/u${round}`);
    app.scheduler.wake();
    // The worker's own next look is a minute away.
    if (round % 5 === 0) await until(arrived(`well-${round}`));
  }
  await stage.nothingWaits();
  expect(stage.posted).toHaveLength(50);
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
  await until(async () => (await firstWakeUps()) === 1);
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

it("a worker goes on with a receiver without a wake-up for each delivery", async () => {
  await open(1);
  stage.answer = slowly(TIME_SLICE_MS / 8);
  const app = await stage.worker(redis.url);
  const worker = await stage.worker(redis.url);
  await stage.add(...MANY.map((id) => `${id}@1/${id}`));
  app.scheduler.wake();
  worker.scheduler.start();
  await stage.nothingWaits();
  const stream = await redis.client.xrange("sign-in-service:deliveries:events", "-", "+");
  const added = stream.filter(([, fields]) => fields[1] === "added");
  expect(added.length).toBeLessThan(MANY.length / 4);
  expect(stage.posted).toHaveLength(MANY.length);
});

it("a receiver with many deliveries frees its slot after a time slice when there is no other slot", async () => {
  stage = closing(await openBullStage({ concurrency: { total: 1, perReceiver: 1 } }));
  for (const service of ["1", "2"]) await stage.receiver(service);
  stage.answer = slowly(TIME_SLICE_MS / 8);
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
  // Longer than one receiver keeps a slot while others wait.
  await new Promise((resolve) => setTimeout(resolve, 2 * TIME_SLICE_MS));
  last.resolve(200);
  await ended;
  expect(stage.posted.map(({ id }) => id)).toEqual(["first"]);
  await expect(stage.waiting()).resolves.toBe(1);
  await expect(firstWakeUps()).resolves.toBe(1);
  // No process polls: the wake-up alone hands it to the next one.
  const dueReceivers = jest.spyOn(stage.storage.deliveries, "dueReceivers").mockResolvedValue([]);
  (await stage.worker(redis.url)).scheduler.start();
  await stage.nothingWaits();
  dueReceivers.mockRestore();
  expect(stage.posted.map(({ id }) => id)).toEqual(["first", "next"]);
});

it("wake-ups that Redis has lost, but not their jobs, are requested again", async () => {
  await open(SHARE);
  const app = await stage.worker(redis.url);
  await stage.add("d1@1/a", "d2@2/b");
  const queue = "sign-in-service:deliveries:";
  const waiting = async (): Promise<boolean> => {
    app.scheduler.wake();
    return (await redis.client.llen(`${queue}wait`)) === 2;
  };
  await until(waiting);
  // As a Redis does that may evict keys.
  await redis.client.del(`${queue}wait`, `${queue}marker`);
  await until(waiting);
  const { scheduler } = await stage.worker(redis.url);
  scheduler.start();
  await stage.nothingWaits();
  expect(stage.posted.map(({ id }) => id).toSorted()).toEqual(["d1", "d2"]);
  await until(async () => (await wakeUps(redis.client)).length === 0);
});
