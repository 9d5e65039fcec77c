/** A scheduler over the Redis of `config.queue`: the connections, the queue of BullMQ, and what is warned of. */
import type { Queue } from "bullmq";
import { unusable } from "../../adapters/redis/first-look.ts";
import { readRedisAddress } from "../../config/value-forms.ts";
import { ConfigurationError } from "../../lib/errors.ts";
import type { Scheduler } from "../scheduler.ts";
import { openRedis, PURPOSE } from "./connection.ts";
import { type BullParts, createBullScheduler } from "./scheduler.ts";
import { createWakeUps, QUEUE, type WakeUp } from "./wake-ups.ts";

export interface BullDeps extends Omit<BullParts, "redis" | "queue" | "wakeUps" | "makeWorker"> {
  /** `redis://…` or `rediss://…`; see `readRedisAddress`. */
  readonly url: string;
  /** Told what an operator should put right. */
  readonly onWarning: (text: string) => void;
  /** Milliseconds for the first connection; default 10,000. */
  readonly patience?: number;
}

const PATIENCE = 10_000;
/** What all keys begin with, unless the address says something else. */
const PREFIX = "sign-in-service";
/** A worker that is gone is noticed after these: long before the shortest lease ends. */
const LOCK = 5000;
const STALLED = 2000;
/** Milliseconds until a wake-up that was passed on is there again. */
const PASSED_ON = 250;
/** Milliseconds until a worker asks again that lost its connection. */
const RETRY = 1000;

/** The id of a job, and the name of no receiver. It is taken away at once; one that stays does nothing in an hour. */
const TRIAL = "trial";
const HOUR = 3_600_000;

/** Does what a look does: a user who may not is told so now. */
async function tryOut(queue: Queue<WakeUp>): Promise<void> {
  await queue.waitUntilReady();
  // One that a start has left behind that was refused in the middle.
  await queue.remove(TRIAL);
  const gone = { removeOnComplete: true, removeOnFail: true };
  await queue.add("look", { receiver: TRIAL }, { jobId: TRIAL, delay: HOUR, ...gone });
  await queue.remove(TRIAL);
}

/**
 * Connects to Redis; warns of one that may evict keys.
 * @throws ConfigurationError for a Redis that can't be the queue.
 * @throws StorageUnavailable when it can't be used.
 */
export async function openBullScheduler(deps: BullDeps): Promise<Scheduler> {
  const { settings, patience = PATIENCE } = deps;
  const address = readRedisAddress(deps.url);
  if (typeof address === "string") throw new ConfigurationError([`config.queue: ${address}`]);
  const redis = await openRedis({ address, patience, onWarning: deps.onWarning });
  const { DelayedError, Queue, Worker } = await import("bullmq");
  // BullMQ's own check repeats the warning on the console, or asks for INFO, which the user may not be allowed.
  const { prefix = PREFIX } = address;
  const common = { prefix, skipVersionCheck: redis.warned };
  const queue = new Queue<WakeUp>(QUEUE, { ...common, connection: redis.client });
  // Told by the looks that fail; without a listener it would end the process.
  queue.on("error", () => undefined);
  try {
    await tryOut(queue);
  } catch (error) {
    redis.disconnect();
    throw unusable(PURPOSE, error);
  }
  const makeWorker: BullParts["makeWorker"] = (serve) =>
    new Worker<WakeUp>(
      QUEUE,
      async (job, token) => {
        if ((await serve(job.data)) === "done") return;
        await job.moveToDelayed(Date.now() + PASSED_ON, token);
        throw new DelayedError();
      },
      {
        ...common,
        connection: redis.forWorker(),
        autorun: false,
        concurrency: settings.concurrency.total,
        lockDuration: LOCK,
        stalledInterval: STALLED,
        runRetryDelay: RETRY,
      },
    );
  const wakeUps = createWakeUps({
    queue,
    client: redis.client,
    prefix,
    share: settings.concurrency.perReceiver,
  });
  return createBullScheduler({ ...deps, redis, queue, wakeUps, makeWorker });
}
