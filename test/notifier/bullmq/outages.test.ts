/** A Redis that ends, stands still or loses all keys during deliveries. */
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { Wire } from "../../servers/wire.ts";
import { type BullStage, openBullStage, until, wakeUps } from "./stage.ts";
import { closing } from "../../closing.ts";

jest.setTimeout(60_000);

let redis: OwnRedis;
let stage: BullStage;
beforeEach(async () => {
  redis = closing(await openOwnRedis());
  stage = closing(await openBullStage());
  for (const service of ["1", "2"]) await stage.receiver(service);
});
afterEach(() => {
  redis.resume();
});

interface Outage {
  begin(): Promise<void> | void;
  end(): Promise<void> | void;
}

const outages: readonly (readonly [string, () => Outage])[] = [
  ["ends", () => ({ begin: () => redis.stop(), end: () => redis.start() })],
  ["stands still", () => ({ begin: () => redis.pause(), end: () => redis.resume() })],
];

const ids = (): string[] => stage.posted.map(({ id }) => id);
const state = async (id: string): Promise<string | undefined> =>
  (await stage.storage.deliveries.find(id))?.state;

/** Two deliveries to one receiver, of which the first is on its way; resolves with what answers it. */
async function inFlight(): Promise<(status: number) => void> {
  const answered = Promise.withResolvers<number>();
  stage.answer = ({ id }) => (id === "d1" ? answered.promise : 200);
  const { scheduler } = await stage.worker(redis.url);
  scheduler.start();
  await stage.add("d1@1/a", "d2@1/a");
  scheduler.wake();
  await until(() => ids().includes("d1"));
  return answered.resolve;
}

describe.each(outages)("a Redis that %s in the middle of a delivery", (_how, outage) => {
  it("does not affect it: the result is recorded, the next delivery of the user follows, and others follow when Redis is back [D-NOTIFY-10]", async () => {
    const answer = await inFlight();
    await outage().begin();
    answer(200);
    await until(async () => (await state("d2")) === "delivered");
    await stage.add("d3@2/b");
    stage.workers[0]?.scheduler.wake();
    await outage().end();
    await stage.nothingWaits();
    expect(ids()).toEqual(["d1", "d2", "d3"]);
  });

  it("lets the worker end: the delivery in flight is recorded, and the rest is left to the next worker", async () => {
    const answer = await inFlight();
    const [worker] = stage.workers;
    await outage().begin();
    const ended = worker?.end(60_000);
    await stage.add("d3@2/b");
    answer(200);
    await ended;
    expect([await state("d1"), await state("d2"), await state("d3")]).toEqual([
      "delivered",
      "waiting",
      "waiting",
    ]);
    await outage().end();
    (await stage.worker(redis.url)).scheduler.start();
    await stage.nothingWaits();
    expect(ids().toSorted()).toEqual(["d1", "d2", "d3"]);
  });

  it("is noticed without any delivery, says why, and is forgotten when Redis is back [D-HEALTH-5]", async () => {
    const { scheduler } = await stage.worker(redis.url);
    expect(scheduler.queueProblem).toBeUndefined();
    const fault = outage();
    await fault.begin();
    await until(() => stage.faults.length > 0);
    expect(scheduler.ok).toBe(false);
    expect(scheduler.queueProblem).toMatch(
      /^the Redis of config\.queue can't be used \((?:ECONNREFUSED|no answer)\)$/u,
    );
    expect(stage.faults).toMatchObject([
      {
        work: "using the queue",
        defect: {
          reason: expect.stringMatching(/^ECONNREFUSED|no answer$/u),
          store: "queue",
          operation: "write",
        },
      },
    ]);
    await fault.end();
    await until(() => scheduler.queueProblem === undefined);
    await until(() => stage.healed.length === 1);
  });

  it("is reported by health, once, also in a process that only stores deliveries, which reconnects by itself", async () => {
    const app = await stage.worker(redis.url);
    const worker = await stage.worker(redis.url);
    worker.scheduler.start();
    await outage().begin();
    await stage.add("d1@1/a");
    app.scheduler.wake();
    await until(() => !app.scheduler.ok);
    await worker.end();
    await outage().end();
    await until(() => app.scheduler.ok);
    expect(stage.faults.length).toBeLessThanOrEqual(2);
    await until(async () => (await wakeUps(redis.client)).length === 1);
    (await stage.worker(redis.url)).scheduler.start();
    await stage.nothingWaits();
  });
});

it("a Redis that is full is noticed without any delivery", async () => {
  const { scheduler } = await stage.worker(redis.url);
  await redis.client.config("SET", "maxmemory", "1");
  await until(() => scheduler.queueProblem === "the Redis of config.queue can't be used (OOM)");
  await redis.client.config("SET", "maxmemory", "0");
  await until(() => scheduler.queueProblem === undefined);
});

it("a storage that fails is no fault of the queue", async () => {
  const { scheduler } = await stage.worker(redis.url);
  scheduler.start();
  await stage.storage.close();
  scheduler.wake();
  await until(() => !scheduler.ok);
  expect(scheduler.queueProblem).toBeUndefined();
});

it("a Redis that is emptied during a delivery: the delivery is recorded once, and the next one is sent [D-NOTIFY-10]", async () => {
  const answer = await inFlight();
  await redis.client.flushall();
  answer(200);
  await stage.nothingWaits();
  await stage.add("d3@1/c");
  stage.workers[0]?.scheduler.wake();
  await stage.nothingWaits();
  expect(ids()).toEqual(["d1", "d2", "d3"]);
});

it("a Redis that is lost again before the next connection is ready delays the end of no worker", async () => {
  const wire = await Wire.to(Number(new URL(redis.url).port));
  const worker = await stage.worker(`redis://127.0.0.1:${wire.port}`);
  worker.scheduler.start();
  // It waits for a wake-up when the connection breaks, and the next connection stays silent.
  await pause(300);
  wire.delay = 60_000;
  wire.cut();
  await pause(500);
  const begin = performance.now();
  await worker.end();
  expect(performance.now() - begin).toBeLessThan(20_000);
  await wire.close();
});
