/**
 * Scheduling over Redis: any number of processes look for heads that are due and ask for wake-ups; whichever worker
 * gets one claims and sends. A process looks after a commit of its own, after a job, when the next delivery is due,
 * every few seconds while something is due, and every minute, so that a Redis that forgot everything only delays.
 */
import type { Queue, Worker } from "bullmq";
import type { Claim, DeliveryStore, DueReceiver } from "../../lib/deliveries/delivery.ts";
import type { NotificationSettings } from "../../config/configuration.ts";
import type { Clock } from "../../lib/clock.ts";
import { StorageUnavailable } from "../../lib/errors.ts";
import { KeyedBatches } from "../../adapters/keyed-batches.ts";
import type { Outage } from "../../lib/outages.ts";
import type { LaneRunner } from "../lane-run.ts";
import { type Scheduler, TURN } from "../scheduler.ts";
import { keptPlaces } from "../shares.ts";
import type { OpenedRedis } from "./connection.ts";
import type { WakeUp, WakeUps } from "./wake-ups.ts";

/** What becomes of a wake-up: it is used up, or for another worker, or for this one later. */
export type Served = "done" | "pass on";

export interface BullParts {
  readonly deliveries: Pick<DeliveryStore, "dueReceivers" | "dueLanes" | "claimDue">;
  readonly runner: Pick<LaneRunner, "run" | "terms">;
  readonly clock: Clock;
  readonly settings: Pick<NotificationSettings, "concurrency">;
  /** Told what came of each look, and when the connection is lost; the next look tries again. */
  readonly outage: Outage;
  /** Told about errors that nobody expected. */
  readonly onFault: (error: unknown) => void;
  /** Milliseconds between two looks for what is due and not scheduled; default a minute. */
  readonly interval?: number;
  readonly redis: OpenedRedis;
  readonly queue: Queue<WakeUp>;
  readonly wakeUps: WakeUps;
  readonly makeWorker: (serve: (wakeUp: WakeUp) => Promise<Served>) => Worker<WakeUp>;
}

const MINUTE = 60_000;
/** Milliseconds until the look after one that failed. */
const SOON = 2000;
/**
 * Milliseconds until the look after one that found something due: whoever had a place for it may have died before the
 * wake-up was there, or Redis may have forgotten it.
 */
const STILL_DUE = 5000;
/**
 * Milliseconds for which a wake-up is used at most while there are places for others: coming back costs several ways to
 * Redis. Not for ever: who has lost its wake-up, for Redis forgot it, is to notice.
 */
const LONGEST_TURN = 2000;
/** Milliseconds for a Redis that does not answer when the connections are closed. */
const FAREWELL = 3000;

class BullScheduler implements Scheduler {
  readonly #parts: BullParts;
  /** All wake-ups of a receiver want what is due first. */
  readonly #claims: KeyedBatches<null, Claim | undefined>;
  readonly #running = new Map<string, number>();
  #worker: Worker<WakeUp> | undefined;
  #well = true;
  #looking: Promise<void> | undefined;
  #again = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;
  #farewell: Promise<void> = Promise.resolve();

  constructor(parts: BullParts) {
    this.#parts = parts;
    const { deliveries, runner, redis } = parts;
    this.#claims = new KeyedBatches<null, Claim | undefined>((receiver, requests) =>
      deliveries.claimDue(receiver, requests.length, runner.terms),
    );
    const { client } = redis;
    client.on("close", () =>
      this.#failed(new StorageUnavailable("the connection to the Redis of config.queue is lost")),
    );
    // What was not scheduled meanwhile.
    client.on("ready", () => this.wake());
  }

  get ok(): boolean {
    return this.#well && this.#isConnected();
  }

  #isConnected(): boolean {
    return this.#parts.redis.client.status === "ready";
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
    // Connecting may time out like any command, and a worker that runs without a connection would never pause.
    void worker
      .waitUntilReady()
      .then(() => (this.#stopped ? undefined : worker.run()))
      .catch((error: unknown) => {
        if (!this.#stopped) this.#parts.onFault(error);
      });
    this.wake();
  }

  stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    // Takes no more jobs from here on; it has ended when those that run have.
    this.#farewell = this.#worker?.close() ?? Promise.resolve();
    return Promise.resolve();
  }

  async close(): Promise<void> {
    const { queue, redis } = this.#parts;
    const farewell = Promise.all([this.#farewell.then(() => queue.close()), this.#looking]);
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, FAREWELL);
    await Promise.race([farewell, late.promise]);
    clearTimeout(timer);
    // What still waits for Redis fails now.
    redis.disconnect();
    await farewell;
  }

  async #look(): Promise<void> {
    let pause = Infinity;
    while (this.#again && !this.#stopped) {
      this.#again = false;
      try {
        pause = await this.#pass();
        // A look that found nothing due says nothing of Redis.
        if (this.#isConnected()) this.#worked();
      } catch (error) {
        pause = SOON;
        this.#failed(error);
      }
    }
    this.#looking = undefined;
    this.#sleep(pause);
  }

  #worked(): void {
    this.#well = true;
    this.#parts.outage.worked();
  }

  #failed(error: unknown): void {
    this.#well = false;
    // What fails because the connections are being closed is no fault.
    if (!this.#stopped) this.#parts.outage.failed(error);
  }

  #sleep(pause: number): void {
    clearTimeout(this.#timer);
    const { interval = MINUTE } = this.#parts;
    const longest = this.#worker === undefined ? Infinity : interval;
    const milliseconds = Math.max(1, Math.ceil(Math.min(pause, longest)));
    if (this.#stopped || milliseconds === Infinity) return;
    this.#timer = setTimeout(() => this.wake(), milliseconds);
  }

  /** @returns milliseconds until the next look. A process that only stores leaves what is due later to the workers. */
  async #pass(): Promise<number> {
    const { deliveries, clock } = this.#parts;
    const due = await deliveries.dueReceivers();
    const now = clock.now();
    const ready = due.filter(({ dueAt }) => dueAt <= now);
    const asked = await Promise.all(ready.map((each) => this.#ask(each)));
    const again = Math.min(...asked.filter((span) => span > 0));
    if (this.#worker === undefined) return again;
    const next = Math.min(...due.map(({ dueAt }) => dueAt).filter((dueAt) => dueAt > now)) - now;
    return Math.min(again, next, ready.length === 0 ? Infinity : STILL_DUE);
  }

  async #ask({ receiver }: DueReceiver): Promise<number> {
    const { deliveries, wakeUps } = this.#parts;
    const heads = await deliveries.dueLanes(receiver, { ahead: 0, limit: wakeUps.places });
    return wakeUps.ask(receiver, heads.length);
  }

  /** As `shareOut` gives places. */
  #hasRoom(receiver: string): boolean {
    const { concurrency } = this.#parts.settings;
    const running = this.#running.get(receiver) ?? 0;
    const kept = running === 0 ? 0 : keptPlaces(concurrency);
    return running < concurrency.perReceiver && this.#total() < concurrency.total - kept;
  }

  #total(): number {
    return [...this.#running.values()].reduce((sum, each) => sum + each, 0);
  }

  /** Whether whoever wanted a place now would get one, so that it need not be this one. */
  #isRoomy(): boolean {
    const { concurrency } = this.#parts.settings;
    return this.#total() < concurrency.total - keptPlaces(concurrency);
  }

  async #serve({ receiver }: WakeUp): Promise<Served> {
    const { runner } = this.#parts;
    if (!this.#hasRoom(receiver)) return "pass on";
    this.#running.set(receiver, (this.#running.get(receiver) ?? 0) + 1);
    try {
      const began = performance.now();
      let end = began + TURN;
      while (performance.now() < end) {
        if (this.#stopped) return "pass on";
        const claim = await this.#claims.add(receiver, null);
        if (claim === undefined) return "done";
        await runner.run(claim, end);
        if (this.#isRoomy()) end = Math.min(performance.now() + TURN, began + LONGEST_TURN);
      }
      // Nobody looks here any more for what is due of it now: a worker that goes on is to.
      return this.#stopped ? "pass on" : "done";
    } finally {
      const left = (this.#running.get(receiver) ?? 1) - 1;
      if (left === 0) this.#running.delete(receiver);
      else this.#running.set(receiver, left);
    }
  }
}

export function createBullScheduler(parts: BullParts): Scheduler {
  return new BullScheduler(parts);
}
