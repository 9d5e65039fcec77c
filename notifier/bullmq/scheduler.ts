/**
 * Scheduling over Redis: any number of processes look for heads that are due and ask for wake-ups; whichever worker
 * gets one claims and sends. A process looks after a commit of its own, after a job, when the next delivery is due, and
 * every minute, so that a Redis that forgot everything only delays.
 */
import type { Queue, Worker } from "bullmq";
import type { DeliveryStore, DueReceiver } from "../../adapters/deliveries.ts";
import type { NotificationSettings } from "../../config/configuration.ts";
import type { Clock } from "../../lib/clock.ts";
import type { LaneRunner } from "../lane-run.ts";
import type { Scheduler } from "../scheduler.ts";
import { type OpenedRedis, openRedis } from "./connection.ts";
import { createWakeUps, PREFIX, QUEUE, type WakeUp, type WakeUps } from "./wake-ups.ts";

export interface BullDeps {
  /** `redis://…` or `rediss://…`. */
  readonly url: string;
  readonly deliveries: Pick<DeliveryStore, "dueReceivers" | "dueLanes" | "claimDue">;
  readonly runner: Pick<LaneRunner, "run" | "terms">;
  readonly clock: Clock;
  readonly settings: Pick<NotificationSettings, "concurrency">;
  /** Told when looking begins to fail; the next look tries again. */
  readonly onFault: (error: unknown) => void;
  /** Told what an operator should put right. */
  readonly onWarning: (text: string) => void;
  /** Milliseconds between two looks for what is due and not scheduled; default a minute. */
  readonly interval?: number;
  /** Milliseconds for the first connection; default 10,000. */
  readonly patience?: number;
}

const MINUTE = 60_000;
const PATIENCE = 10_000;
/** A worker that is gone is noticed after this: before the shortest lease ends. */
const LOCK = 15_000;
const STALLED = 10_000;
/** So many lanes are served for one wake-up at most: then others have their turn. */
const LANES = 16;
/** Milliseconds for a Redis that does not answer when the connections are closed. */
const FAREWELL = 3000;

interface Parts extends BullDeps {
  readonly redis: OpenedRedis;
  readonly queue: Queue<WakeUp>;
  readonly makeWorker: (process: (wakeUp: WakeUp) => Promise<void>) => Worker<WakeUp>;
}

class BullScheduler implements Scheduler {
  ok = true;
  readonly #parts: Parts;
  readonly #wakeUps: WakeUps;
  readonly #running = new Map<string, number>();
  #worker: Worker<WakeUp> | undefined;
  #looking: Promise<void> | undefined;
  #again = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;
  #farewell: Promise<void> = Promise.resolve();

  constructor(parts: Parts) {
    this.#parts = parts;
    const { queue, redis, settings } = parts;
    this.#wakeUps = createWakeUps(queue, redis.client, settings.concurrency.perReceiver);
    // What was not scheduled while the connection was lost.
    redis.client.on("ready", () => this.wake());
  }

  wake(): void {
    if (this.#stopped) return;
    this.#again = true;
    this.#looking ??= this.#look();
  }

  start(): void {
    const worker = this.#parts.makeWorker((wakeUp) => this.#serve(wakeUp));
    this.#worker = worker;
    for (const event of ["completed", "failed", "error"] as const) worker.on(event, () => this.wake());
    void worker.run().catch(this.#parts.onFault);
    this.wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    // Takes no more jobs from here on; it has ended when those that run have.
    this.#farewell = this.#worker?.close() ?? Promise.resolve();
    await this.#looking;
  }

  async close(): Promise<void> {
    const { queue, redis } = this.#parts;
    const late = Promise.withResolvers<"late">();
    const timer = setTimeout(() => late.resolve("late"), FAREWELL);
    const farewell = this.#farewell.then(() => queue.close());
    const how = await Promise.race([farewell, late.promise]);
    clearTimeout(timer);
    // A connection that was closed already would be waited for once more.
    if (how === "late") await this.#worker?.disconnect().catch(() => undefined);
    redis.disconnect();
  }

  async #look(): Promise<void> {
    let next: number | undefined;
    while (this.#again && !this.#stopped) {
      this.#again = false;
      next = await this.#pass().catch((error: unknown) => this.#fault(error));
    }
    this.#looking = undefined;
    this.#sleep(next);
  }

  /** One report for an outage, however many looks fail in it. */
  #fault(error: unknown): undefined {
    if (this.ok) this.#parts.onFault(error);
    this.ok = false;
  }

  /** A process that only stores leaves the later looks to the workers. */
  #sleep(next: number | undefined): void {
    clearTimeout(this.#timer);
    if (this.#stopped || this.#worker === undefined) return;
    const { interval = MINUTE } = this.#parts;
    this.#timer = setTimeout(() => this.wake(), Math.max(1, Math.ceil(Math.min(interval, next ?? interval))));
  }

  /** @returns milliseconds until something else is due. */
  async #pass(): Promise<number> {
    const { deliveries, clock } = this.#parts;
    const due = await deliveries.dueReceivers();
    const now = clock.now();
    await Promise.all(due.filter(({ dueAt }) => dueAt <= now).map((each) => this.#ask(each)));
    this.ok = true;
    return Math.min(...due.map(({ dueAt }) => dueAt).filter((dueAt) => dueAt > now)) - now;
  }

  async #ask({ receiver }: DueReceiver): Promise<void> {
    const { deliveries, settings } = this.#parts;
    const { perReceiver } = settings.concurrency;
    // It has its share here, and is looked at again when one of them ends.
    if ((this.#running.get(receiver) ?? 0) >= perReceiver) return;
    const heads = await deliveries.dueLanes(receiver, { ahead: 0, limit: 2 * perReceiver });
    await this.#wakeUps.add(receiver, heads);
  }

  async #serve({ receiver }: WakeUp): Promise<void> {
    const { deliveries, runner, settings } = this.#parts;
    const places = this.#running.get(receiver) ?? 0;
    if (places >= settings.concurrency.perReceiver) return;
    this.#running.set(receiver, places + 1);
    try {
      for (let lanes = 0; lanes < LANES && !this.#stopped; lanes += 1) {
        const [claim] = await deliveries.claimDue(receiver, 1, runner.terms);
        if (claim === undefined) return;
        await runner.run(claim);
      }
    } finally {
      const left = (this.#running.get(receiver) ?? 1) - 1;
      if (left === 0) this.#running.delete(receiver);
      else this.#running.set(receiver, left);
    }
  }
}

/**
 * Connects to Redis; warns of one that may evict keys.
 * @throws StorageUnavailable when Redis can't be used.
 */
export async function openBullScheduler(deps: BullDeps): Promise<Scheduler> {
  const redis = await openRedis(deps.url, deps.patience ?? PATIENCE);
  const { evictionPolicy } = redis;
  const fits = evictionPolicy === "noeviction";
  if (!fits) {
    deps.onWarning(
      `the Redis of config.queue has maxmemory-policy ${evictionPolicy}: set it to noeviction, or wake-ups get lost and notifications are late`,
    );
  }
  const { Queue, Worker } = await import("bullmq");
  // BullMQ's own check only repeats the warning, on the console.
  const common = { prefix: PREFIX, skipVersionCheck: !fits };
  const queue = new Queue<WakeUp>(QUEUE, { ...common, connection: redis.client });
  // Told by the looks that fail; without a listener it would end the process.
  queue.on("error", () => undefined);
  const makeWorker: Parts["makeWorker"] = (process) =>
    new Worker<WakeUp>(QUEUE, ({ data }) => process(data), {
      ...common,
      connection: redis.forWorker(),
      autorun: false,
      concurrency: deps.settings.concurrency.total,
      lockDuration: LOCK,
      stalledInterval: STALLED,
    });
  return new BullScheduler({ ...deps, redis, queue, makeWorker });
}
