/** A scheduler over the Redis of `config.queue`: the connections, the queue of BullMQ, and what is warned of. */
import { openRedis } from "./connection.ts";
import { type BullParts, createBullScheduler } from "./scheduler.ts";
import type { Scheduler } from "../scheduler.ts";
import { createWakeUps, PREFIX, QUEUE, type WakeUp } from "./wake-ups.ts";

export interface BullDeps extends Omit<BullParts, "redis" | "queue" | "wakeUps" | "makeWorker"> {
  /** `redis://…` or `rediss://…`. */
  readonly url: string;
  /** Told what an operator should put right. */
  readonly onWarning: (text: string) => void;
  /** Milliseconds for the first connection; default 10,000. */
  readonly patience?: number;
}

const PATIENCE = 10_000;
/** A worker that is gone is noticed after these: long before the shortest lease ends. */
const LOCK = 5000;
const STALLED = 2000;
/** Milliseconds until a wake-up that was passed on is there again. */
const PASSED_ON = 250;
/** Milliseconds until a worker asks again that lost its connection. */
const RETRY = 1000;

/**
 * Connects to Redis; warns of one that may evict keys.
 * @throws ConfigurationError for a Redis that can't be the queue.
 * @throws StorageUnavailable when it can't be used.
 */
export async function openBullScheduler(deps: BullDeps): Promise<Scheduler> {
  const { settings } = deps;
  const redis = await openRedis(deps.url, deps.patience ?? PATIENCE);
  const { evictionPolicy } = redis;
  const fits = evictionPolicy === "noeviction";
  if (!fits) {
    deps.onWarning(
      `the Redis of config.queue has maxmemory-policy ${evictionPolicy}: set it to noeviction, or wake-ups get lost and notifications are late`,
    );
  }
  const { DelayedError, Queue, Worker } = await import("bullmq");
  // BullMQ's own check only repeats the warning, on the console.
  const common = { prefix: PREFIX, skipVersionCheck: !fits };
  const queue = new Queue<WakeUp>(QUEUE, { ...common, connection: redis.client });
  // Told by the looks that fail; without a listener it would end the process.
  queue.on("error", () => undefined);
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
  const wakeUps = createWakeUps(queue, redis.client, settings.concurrency.perReceiver);
  return createBullScheduler({ ...deps, redis, queue, wakeUps, makeWorker });
}
