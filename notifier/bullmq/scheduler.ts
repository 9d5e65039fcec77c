/**
 * The scheduler on the Redis of `config.queue`. BullMQ wakes one worker for a receiver with due deliveries, and the
 * next one if the first has no free slot. A job says "look at this receiver" and nothing else: no user, no payload. A
 * receiver has at most two jobs, one that is being served and one that follows it, so the backlog of a dead receiver
 * stays in the storage and blocks nobody. Workers also poll by themselves, so a Redis that lost everything only delays
 * deliveries.
 */
import type { Job, Queue, Worker } from "bullmq";
import { asFault, reason } from "../../adapters/redis/faults.ts";
import { unusable } from "../../adapters/redis/startup.ts";
import { readRedisAddress } from "../../config/redis-address.ts";
import { ConfigurationError } from "../../core/errors.ts";
import type { Outage } from "../../core/outages.ts";
import type { LaneWorker } from "../sending/lane-worker.ts";
import type { StorageServices } from "../../records/services.ts";
import { LOOKING, Poller, type Scheduler } from "../poller.ts";
import { type OpenedRedis, openRedis, PURPOSE } from "./connection.ts";
import { within } from "../../core/with-timeout.ts";

type Services = Pick<
  StorageServices,
  "configuration" | "storage" | "clock" | "outages" | "onDefect" | "onWarning"
>;

/** How the scheduler works. */
interface Scheduling {
  readonly worker: Pick<LaneWorker, "run" | "lease">;
  /** Between two polls of a worker without a wake-up; default a minute. */
  readonly intervalMs?: number;
  /** Time-out of the first connection; default 10,000. */
  readonly connectTimeoutMs?: number;
}

/** All that a job contains. */
interface WakeUp {
  readonly receiver: string;
}

const QUEUE = "deliveries";
const CONNECT_TIMEOUT_MS = 10_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** BullMQ notices a dead worker after these times: long before the shortest lease ends. */
const LOCK_MS = 5000;
const STALLED_MS = 2000;
/** Until a wake-up that was passed on is available again. */
const PASSED_ON_MS = 250;
/** Until a worker that lost its connection fetches jobs again. */
const RECONNECT_MS = 1000;
/** Between two polls while something is due for which there is no slot here, and between two searches for lost jobs. */
const STILL_DUE_MS = 5000;
/** Between two writes that show whether Redis can be used. Without them, one that hangs would be noticed with the next delivery. */
const HEARTBEAT_MS = 5000;
/** The record of such a write is gone after this time. */
const HEARTBEAT_KEPT_MS = 60_000;
/** How long closing the connections waits for a Redis that does not answer. */
const CLOSE_TIMEOUT_MS = 3000;

/** BullMQ keeps finished jobs for its lists, but ours record nothing. */
const NOT_KEPT = { removeOnComplete: true, removeOnFail: true };
/**
 * The id of a trial job; no receiver has this name. The job is removed immediately; if it stays, it does nothing for an
 * hour.
 */
const TRIAL = "trial";

/** Runs the commands of a poll, so that a user without the necessary rights fails at start-up. */
async function tryOut(queue: Queue<WakeUp>): Promise<void> {
  await queue.waitUntilReady();
  // Left behind by a start that failed halfway.
  await queue.remove(TRIAL);
  await queue.add("look", { receiver: TRIAL }, { jobId: TRIAL, delay: HOUR_MS, ...NOT_KEPT });
  await queue.remove(TRIAL);
}

/** Requests wake-ups of any worker. */
class WakeUps {
  readonly #queue: Queue<WakeUp>;
  readonly #ofLost: (receiver: string, id: string) => Job<WakeUp>;
  /** When this process last searched for a lost job of each receiver. */
  readonly #searched = new Map<string, number>();

  /** @param ofLost the job with this id, of which Redis may hold nothing but the deduplication key. */
  constructor(queue: Queue<WakeUp>, ofLost: (receiver: string, id: string) => Job<WakeUp>) {
    this.#queue = queue;
    this.#ofLost = ofLost;
  }

  async request(receivers: readonly string[]): Promise<void> {
    await Promise.all(receivers.map((receiver) => this.#forgetLost(receiver)));
    await this.#queue.addBulk(
      receivers.map((receiver) => ({
        name: "look",
        data: { receiver },
        // A wake-up that arrives while the receiver is being served runs afterwards; further ones change nothing.
        opts: { deduplication: { id: receiver, keepLastIfActive: true }, ...NOT_KEPT },
      })),
    );
  }

  /**
   * A job may exist without being in any list of the queue, because someone deleted keys of Redis, or a script of BullMQ
   * stopped halfway. No worker would ever get it, and it would keep others away.
   */
  async #forgetLost(receiver: string): Promise<void> {
    const now = performance.now();
    if (now - (this.#searched.get(receiver) ?? -Infinity) < STILL_DUE_MS) return;
    this.#searched.set(receiver, now);
    const job = await this.#queue.getDeduplicationJobId(receiver);
    if (job === null || (await this.#queue.getJobState(job)) !== "unknown") return;
    // Only while the key still names this job: one that has ended meanwhile has left it to the next.
    await this.#ofLost(receiver, job).removeDeduplicationKey();
    await this.#queue.remove(job);
  }
}

/**
 * Connects to Redis; warns if it may evict keys.
 * @throws ConfigurationError for a Redis that can't be the queue.
 * @throws StorageUnavailable when it can't be used.
 */
export async function openBullScheduler(services: Services, scheduling: Scheduling): Promise<Scheduler> {
  const { configuration, onWarning } = services;
  const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = scheduling;
  const address = readRedisAddress(configuration.queue);
  if (typeof address === "string") throw new ConfigurationError([`config.queue: ${address}`]);
  const redis = await openRedis({ address, timeoutMs: connectTimeoutMs, onWarning });
  const { DelayedError, Job: BullJob, Queue: BullQueue, Worker: BullWorker } = await import("bullmq");
  // BullMQ's own check repeats the warning on the console, or calls INFO, which the user may not be allowed to.
  const common = { prefix: redis.prefix, skipVersionCheck: redis.warned };
  const queue = new BullQueue<WakeUp>(QUEUE, { ...common, connection: redis.client });
  // Failed polls report the fault. Without a listener this event would end the process.
  queue.on("error", () => undefined);
  try {
    await tryOut(queue);
  } catch (error) {
    redis.disconnect();
    throw unusable(PURPOSE, error);
  }
  const makeWorker: MakeWorker = (serve) =>
    new BullWorker<WakeUp>(
      QUEUE,
      async (job, token) => {
        if (await serve(job.data.receiver)) return;
        await job.moveToDelayed(Date.now() + PASSED_ON_MS, token);
        throw new DelayedError();
      },
      {
        ...common,
        connection: redis.forWorker(),
        autorun: false,
        concurrency: configuration.notifications.concurrency.total,
        lockDuration: LOCK_MS,
        stalledInterval: STALLED_MS,
        runRetryDelay: RECONNECT_MS,
      },
    );
  const wakeUps = new WakeUps(
    queue,
    (receiver, id) =>
      new BullJob<WakeUp>(queue, "look", { receiver }, { deduplication: { id: receiver } }, id),
  );
  const heartbeat = (): Promise<unknown> =>
    redis.client.set(`${common.prefix}:heartbeat`, "", "PX", HEARTBEAT_KEPT_MS);
  return new BullScheduler(services, scheduling, { redis, queue, wakeUps, makeWorker, heartbeat });
}

/** @param serve returns whether there was a slot for the receiver; otherwise another worker gets the wake-up. */
type MakeWorker = (serve: (receiver: string) => Promise<boolean>) => Worker<WakeUp>;

class BullScheduler implements Scheduler {
  readonly #services: Services;
  readonly #outage: Outage;
  readonly #redis: OpenedRedis;
  readonly #queue: Queue<WakeUp>;
  readonly #makeWorker: MakeWorker;
  readonly #wakeUps: WakeUps;
  readonly #poller: Poller;
  #jobs: Worker<WakeUp> | undefined;
  #stopped = false;
  readonly #heartbeat: () => Promise<unknown>;
  readonly #beating: NodeJS.Timeout;
  /** What Redis said to the last heartbeat, if it failed. */
  #refusal: string | undefined;
  /** Why the last attempt to connect failed. */
  #lost: string | undefined;
  #jobsClosed: Promise<void> = Promise.resolve();

  constructor(
    services: Services,
    { worker, intervalMs = MINUTE_MS }: Scheduling,
    bull: {
      readonly redis: OpenedRedis;
      readonly queue: Queue<WakeUp>;
      readonly wakeUps: WakeUps;
      readonly makeWorker: MakeWorker;
      /** Writes to Redis. */
      readonly heartbeat: () => Promise<unknown>;
    },
  ) {
    this.#services = services;
    this.#outage = services.outages("using the queue");
    this.#redis = bull.redis;
    this.#queue = bull.queue;
    this.#makeWorker = bull.makeWorker;
    this.#wakeUps = bull.wakeUps;
    this.#heartbeat = bull.heartbeat;
    const outage = services.outages(LOOKING);
    this.#poller = new Poller(services, {
      worker,
      poll: intervalMs / 1000,
      keepAlive: true,
      outage: {
        // A poll that found nothing due did not need Redis.
        worked: () => this.#isConnected() && outage.worked(),
        // Closing the connections makes commands fail, which is no fault.
        failed: (error) => this.#stopped || outage.failed(error),
      },
      passOn: async (receivers) => {
        await this.#wakeUps.request(receivers);
        return STILL_DUE_MS;
      },
    });
    const { client } = bull.redis;
    client.on("error", (error: unknown) => {
      this.#lost = reason(error);
      // Reports it now, with what the attempt to connect said.
      void this.#beat();
    });
    client.on("ready", () => {
      this.#lost = undefined;
      // Catches up on what was not scheduled in the meantime.
      this.wake();
      void this.#beat();
    });
    this.#beating = setInterval(() => void this.#beat(), HEARTBEAT_MS).unref();
  }

  /** Never rejects. */
  async #beat(): Promise<void> {
    try {
      await this.#heartbeat();
      this.#refusal = undefined;
      this.#outage.worked();
    } catch (error) {
      // Closing the connections makes commands fail, which is no fault.
      if (this.#stopped) return;
      const fault = asFault(error, this.#lost);
      this.#refusal = fault.reason;
      fault.call = { store: "queue", operation: "write" };
      this.#outage.failed(fault);
    }
  }

  get ok(): boolean {
    return this.#poller.ok && this.queueProblem === undefined;
  }

  get queueProblem(): string | undefined {
    const why = this.#refusal ?? (this.#isConnected() ? undefined : (this.#lost ?? "no connection"));
    return why === undefined ? undefined : `the Redis of config.queue can't be used (${why})`;
  }

  #isConnected(): boolean {
    return this.#redis.client.status === "ready";
  }

  wake(): void {
    this.#poller.wake();
  }

  start(): void {
    const jobs = this.#makeWorker((receiver) => this.#poller.serve(receiver));
    this.#jobs = jobs;
    for (const event of ["failed", "error"] as const) jobs.on(event, () => this.wake());
    // Connecting may time out like any command, and a worker that runs without a connection never pauses.
    void jobs
      .waitUntilReady()
      .then(() => (this.#stopped ? undefined : jobs.run()))
      .catch((error: unknown) => {
        if (!this.#stopped) this.#services.onDefect(error);
      });
    this.#poller.start();
  }

  stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#beating);
    // Fetches no more jobs from here on; resolves when the running ones have ended.
    this.#jobsClosed = this.#jobs?.close() ?? Promise.resolve();
    return this.#poller.stop();
  }

  async close(): Promise<void> {
    const closed = this.#leaveRest()
      .then(() => this.#jobsClosed)
      .then(() => this.#queue.close());
    await within(CLOSE_TIMEOUT_MS, closed, () => undefined);
    // Commands that still wait for Redis fail now.
    this.#redis.disconnect();
    await closed;
  }

  /** Wakes other workers for what is still due. If that fails, they poll by themselves. */
  async #leaveRest(): Promise<void> {
    if (this.#jobs === undefined) return;
    try {
      const { clock, storage } = this.#services;
      const now = clock.now();
      const due = await storage.deliveries.dueReceivers();
      await this.#wakeUps.request(due.filter(({ dueAt }) => dueAt <= now).map(({ receiver }) => receiver));
    } catch {
      return;
    }
  }
}
