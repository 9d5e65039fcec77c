/**
 * The scheduler on the Redis of `config.queue`: any number of processes look for due lanes and request wake-ups, and
 * whichever worker gets a wake-up claims and sends. A process looks after each commit of its own, after a job, when the
 * next delivery is due, every few seconds while something is due, and every minute. So a Redis that lost everything only
 * delays deliveries.
 */
import type { Queue, Worker } from "bullmq";
import { KeyedBatches } from "../../core/keyed-batches.ts";
import { unusable } from "../../adapters/redis/startup.ts";
import type { NotificationSettings } from "../../config/configuration.ts";
import { readRedisAddress } from "../../config/storage-address.ts";
import type { Clock } from "../../core/clock.ts";
import type { Claim, DeliveryStore, DueReceiver } from "../../records/deliveries/delivery.ts";
import { ConfigurationError, StorageUnavailable } from "../../core/errors.ts";
import type { Outage } from "../../core/outages.ts";
import type { LaneWorker } from "../sending/lane-worker.ts";
import { reservedSlots, type Scheduler, TIME_SLICE } from "../scheduler.ts";
import { type OpenedRedis, openRedis, PURPOSE } from "./connection.ts";
import { QUEUE, type WakeUp, WakeUps } from "./wake-ups.ts";

export interface BullSchedulerOptions {
  /** `redis://…` or `rediss://…`; see `readRedisAddress`. */
  readonly url: string;
  readonly deliveries: Pick<DeliveryStore, "dueReceivers" | "dueLanes" | "claimDue">;
  readonly worker: Pick<LaneWorker, "run" | "lease">;
  readonly clock: Clock;
  readonly settings: Pick<NotificationSettings, "concurrency">;
  /** Records whether looks succeed, and when the connection is lost; the next look tries again. */
  readonly outage: Outage;
  /** Called with unexpected errors. */
  readonly onFault: (error: unknown) => void;
  /** Called with what an operator should fix. */
  readonly onWarning: (text: string) => void;
  /** Milliseconds between two looks for due deliveries without a wake-up; default a minute. */
  readonly interval?: number;
  /** Milliseconds for the first connection; default 10,000. */
  readonly patience?: number;
}

/** The prefix of all keys, unless the address names another. */
const PREFIX = "sign-in-service";
const PATIENCE = 10_000;
const MINUTE = 60_000;
/** BullMQ notices a dead worker after these milliseconds: long before the shortest lease ends. */
const LOCK = 5000;
const STALLED = 2000;
/** Milliseconds until a wake-up that was passed on is available again. */
const PASSED_ON = 250;
/** Milliseconds until a worker that lost its connection fetches jobs again. */
const RETRY = 1000;
/** Milliseconds until the look after one that failed. */
const AFTER_FAILURE = 2000;
/**
 * Milliseconds until the look after one that found something due: the worker with a free slot may have died before the
 * wake-up arrived, or Redis may have lost it.
 */
const STILL_DUE = 5000;
/**
 * Milliseconds for which a worker uses one wake-up while slots for others are free, because a new wake-up costs several
 * round trips to Redis. There is a limit so that a worker notices when Redis has lost its job.
 */
const LONGEST_SLICE = 2000;
/** Milliseconds for a Redis that does not answer while the connections are closed. */
const FAREWELL = 3000;

/** The id of a job, and no receiver's name. The job is removed immediately; one that stays does nothing for an hour. */
const TRIAL = "trial";
const HOUR = 3_600_000;

/** Does what a look does, so that a user without the necessary rights fails at start-up. */
async function tryOut(queue: Queue<WakeUp>): Promise<void> {
  await queue.waitUntilReady();
  // Left behind by a start that failed halfway.
  await queue.remove(TRIAL);
  const gone = { removeOnComplete: true, removeOnFail: true };
  await queue.add("look", { receiver: TRIAL }, { jobId: TRIAL, delay: HOUR, ...gone });
  await queue.remove(TRIAL);
}

/**
 * Connects to Redis; warns if it may evict keys.
 * @throws ConfigurationError for a Redis that can't be the queue.
 * @throws StorageUnavailable when it can't be used.
 */
export async function openBullScheduler(options: BullSchedulerOptions): Promise<Scheduler> {
  const { settings, patience = PATIENCE, onWarning } = options;
  const address = readRedisAddress(options.url);
  if (typeof address === "string") throw new ConfigurationError([`config.queue: ${address}`]);
  const redis = await openRedis({ address, patience, onWarning });
  const { DelayedError, Queue: BullQueue, Worker: BullWorker } = await import("bullmq");
  // BullMQ's own check repeats the warning on the console, or calls INFO, which the user may not be allowed to.
  const { prefix = PREFIX } = address;
  const common = { prefix, skipVersionCheck: redis.warned };
  const queue = new BullQueue<WakeUp>(QUEUE, { ...common, connection: redis.client });
  // Looks that fail report the fault. Without a listener this event would end the process.
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
  const wakeUps = new WakeUps(queue, redis.client, prefix, 2 * settings.concurrency.perReceiver);
  return new BullScheduler(options, { redis, queue, wakeUps, makeWorker });
}

/** What becomes of a wake-up: it is used up, or it goes to another worker, or to this one later. */
type Served = "done" | "pass on";
type MakeWorker = (serve: (wakeUp: WakeUp) => Promise<Served>) => Worker<WakeUp>;

class BullScheduler implements Scheduler {
  readonly #options: BullSchedulerOptions;
  readonly #redis: OpenedRedis;
  readonly #queue: Queue<WakeUp>;
  readonly #wakeUps: WakeUps;
  readonly #makeWorker: MakeWorker;
  /** Slots of one receiver that ask at the same time claim in one commit. */
  readonly #claims: KeyedBatches<null, Claim | undefined>;
  /** Occupied slots of each receiver. */
  readonly #running = new Map<string, number>();
  #jobs: Worker<WakeUp> | undefined;
  #lastLookWorked = true;
  #looking: Promise<void> | undefined;
  #again = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;
  #jobsClosed: Promise<void> = Promise.resolve();

  constructor(
    options: BullSchedulerOptions,
    bull: {
      readonly redis: OpenedRedis;
      readonly queue: Queue<WakeUp>;
      readonly wakeUps: WakeUps;
      readonly makeWorker: MakeWorker;
    },
  ) {
    this.#options = options;
    this.#redis = bull.redis;
    this.#queue = bull.queue;
    this.#wakeUps = bull.wakeUps;
    this.#makeWorker = bull.makeWorker;
    const { deliveries, worker } = options;
    this.#claims = new KeyedBatches<null, Claim | undefined>((receiver, requests) =>
      deliveries.claimDue(receiver, requests.length, worker.lease),
    );
    const { client } = bull.redis;
    client.on("close", () =>
      this.#failed(new StorageUnavailable("the connection to the Redis of config.queue is lost")),
    );
    // Catches up on what was not scheduled in the meantime.
    client.on("ready", () => this.wake());
  }

  get ok(): boolean {
    return this.#lastLookWorked && this.#isConnected();
  }

  #isConnected(): boolean {
    return this.#redis.client.status === "ready";
  }

  wake(): void {
    if (this.#stopped) return;
    this.#again = true;
    this.#looking ??= this.#look();
  }

  start(): void {
    const jobs = this.#makeWorker((wakeUp) => this.#serve(wakeUp));
    this.#jobs = jobs;
    for (const event of ["completed", "failed", "error"] as const) jobs.on(event, () => this.wake());
    // Connecting may time out like any command, and a worker that runs without a connection never pauses.
    void jobs
      .waitUntilReady()
      .then(() => (this.#stopped ? undefined : jobs.run()))
      .catch((error: unknown) => {
        if (!this.#stopped) this.#options.onFault(error);
      });
    this.wake();
  }

  stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    // Fetches no more jobs from here on; resolves when the running ones have ended.
    this.#jobsClosed = this.#jobs?.close() ?? Promise.resolve();
    return Promise.resolve();
  }

  async close(): Promise<void> {
    const farewell = Promise.all([this.#jobsClosed.then(() => this.#queue.close()), this.#looking]);
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, FAREWELL);
    await Promise.race([farewell, late.promise]);
    clearTimeout(timer);
    // Commands that still wait for Redis fail now.
    this.#redis.disconnect();
    await farewell;
  }

  async #look(): Promise<void> {
    let pause = Infinity;
    while (this.#again && !this.#stopped) {
      this.#again = false;
      try {
        pause = await this.#pass();
        // A look that found nothing due did not need Redis.
        if (this.#isConnected()) this.#worked();
      } catch (error) {
        pause = AFTER_FAILURE;
        this.#failed(error);
      }
    }
    this.#looking = undefined;
    this.#sleep(pause);
  }

  #worked(): void {
    this.#lastLookWorked = true;
    this.#options.outage.worked();
  }

  #failed(error: unknown): void {
    this.#lastLookWorked = false;
    // Closing the connections makes commands fail: that is no fault.
    if (!this.#stopped) this.#options.outage.failed(error);
  }

  #sleep(pause: number): void {
    clearTimeout(this.#timer);
    const { interval = MINUTE } = this.#options;
    const longest = this.#jobs === undefined ? Infinity : interval;
    const milliseconds = Math.max(1, Math.ceil(Math.min(pause, longest)));
    if (this.#stopped || milliseconds === Infinity) return;
    this.#timer = setTimeout(() => this.wake(), milliseconds);
  }

  /** @returns milliseconds until the next look. A process without a worker leaves later deliveries to the workers. */
  async #pass(): Promise<number> {
    const due = await this.#options.deliveries.dueReceivers();
    const now = this.#options.clock.now();
    const ready = due.filter(({ dueAt }) => dueAt <= now);
    const retries = await Promise.all(ready.map((each) => this.#requestWakeUps(each)));
    const again = Math.min(...retries.filter((span) => span > 0));
    if (this.#jobs === undefined) return again;
    const next = Math.min(...due.map(({ dueAt }) => dueAt).filter((dueAt) => dueAt > now)) - now;
    return Math.min(again, next, ready.length === 0 ? Infinity : STILL_DUE);
  }

  async #requestWakeUps({ receiver }: DueReceiver): Promise<number> {
    const limit = this.#wakeUps.perReceiver;
    const heads = await this.#options.deliveries.dueLanes(receiver, { within: 0, limit });
    return this.#wakeUps.request(receiver, heads.length);
  }

  /** The rule of `shareSlots`. */
  #hasSlot(receiver: string): boolean {
    const { concurrency } = this.#options.settings;
    const running = this.#running.get(receiver) ?? 0;
    const reserved = running === 0 ? 0 : reservedSlots(concurrency);
    return running < concurrency.perReceiver && this.#occupied() < concurrency.total - reserved;
  }

  #occupied(): number {
    return [...this.#running.values()].reduce((sum, each) => sum + each, 0);
  }

  /** Whether any receiver would get a slot now, so that this one need not give up its own. */
  #hasSlotForAll(): boolean {
    const { concurrency } = this.#options.settings;
    return this.#occupied() < concurrency.total - reservedSlots(concurrency);
  }

  async #serve({ receiver }: WakeUp): Promise<Served> {
    const { worker } = this.#options;
    if (!this.#hasSlot(receiver)) return "pass on";
    this.#running.set(receiver, (this.#running.get(receiver) ?? 0) + 1);
    try {
      const began = performance.now();
      let end = began + TIME_SLICE;
      while (performance.now() < end) {
        if (this.#stopped) return "pass on";
        const claim = await this.#claims.add(receiver, null);
        if (claim === undefined) return "done";
        await worker.run(claim, end);
        if (this.#hasSlotForAll()) end = Math.min(performance.now() + TIME_SLICE, began + LONGEST_SLICE);
      }
      // A stopped process no longer looks for what else is due, so the wake-up goes to another worker.
      return this.#stopped ? "pass on" : "done";
    } finally {
      const left = (this.#running.get(receiver) ?? 1) - 1;
      if (left === 0) this.#running.delete(receiver);
      else this.#running.set(receiver, left);
    }
  }
}
