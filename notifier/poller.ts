/**
 * The embedded scheduler: looks for due deliveries, claims them and hands them to the lane worker. It looks after each
 * commit of its own process (`wake`), when a slot becomes free, when the next delivery is due, when the storage reports
 * a change by another process, and at a fixed interval, because not every storage reports changes.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Claim, DeliveryStore } from "../records/deliveries/delivery.ts";
import type { NotificationSettings } from "../config/configuration.ts";
import type { Clock } from "../core/clock.ts";
import type { Outage } from "../core/outages.ts";
import type { LaneWorker } from "./sending/lane-worker.ts";
import { reservedSlots, type Scheduler, shareSlots, TIME_SLICE } from "./scheduler.ts";

/**
 * Milliseconds between two looks. Deliveries that end in the meantime are gathered: one look fills many slots for the
 * cost of one. Without the pause a busy process spends more on looking than on delivering.
 */
const BATCH_WINDOW = 2;
/** The shortest time that a timer measures. */
const SHORTEST_SLEEP = 1;

export class Poller implements Scheduler {
  ok = true;
  readonly #deliveries: Pick<DeliveryStore, "dueReceivers" | "claimDue" | "watch">;
  readonly #worker: Pick<LaneWorker, "run" | "lease">;
  readonly #clock: Clock;
  readonly #concurrency: NotificationSettings["concurrency"];
  readonly #interval: number;
  readonly #keepAlive: boolean;
  readonly #outage: Outage;
  /** Occupied slots of each receiver. */
  readonly #running = new Map<string, number>();
  #occupied = 0;
  /** The pass in which each receiver last got a slot; only of receivers with something waiting. */
  #served = new Map<string, number>();
  #passes = 0;
  #awake = false;
  #stopped = false;
  #interrupt: (() => void) | undefined;
  #endWatch: () => void = () => undefined;
  #loop: Promise<void> = Promise.resolve();

  constructor(options: {
    readonly deliveries: Pick<DeliveryStore, "dueReceivers" | "claimDue" | "watch">;
    readonly worker: Pick<LaneWorker, "run" | "lease">;
    readonly clock: Clock;
    readonly settings: Pick<NotificationSettings, "concurrency" | "poll">;
    /** Whether waiting for the next look keeps the process alive. */
    readonly keepAlive: boolean;
    /** Records whether looks succeed; the next look retries one that failed. */
    readonly outage: Outage;
  }) {
    this.#deliveries = options.deliveries;
    this.#worker = options.worker;
    this.#clock = options.clock;
    this.#concurrency = options.settings.concurrency;
    this.#interval = options.settings.poll * 1000;
    this.#keepAlive = options.keepAlive;
    this.#outage = options.outage;
  }

  wake(): void {
    this.#awake = true;
    this.#interrupt?.();
  }

  start(): void {
    this.#endWatch = this.#deliveries.watch(() => this.wake());
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#endWatch();
    this.wake();
    await this.#loop;
  }

  close(): Promise<void> {
    return this.#loop;
  }

  /** Looks once and starts due deliveries. @returns milliseconds until the next known delivery is due. */
  async pass(): Promise<number> {
    const due = await this.#deliveries.dueReceivers();
    const now = this.#clock.now();
    const ready = due.filter(({ dueAt }) => dueAt <= now).map(({ receiver }) => receiver);
    this.#served = new Map(due.map(({ receiver }) => [receiver, this.#served.get(receiver) ?? 0] as const));
    this.#passes += 1;
    const { total, perReceiver } = this.#concurrency;
    const slots = { free: total - this.#occupied, perReceiver, reserved: reservedSlots(this.#concurrency) };
    const requests = ready.map((receiver) => ({
      receiver,
      running: this.#running.get(receiver) ?? 0,
      served: this.#served.get(receiver) ?? 0,
    }));
    const claims = [...shareSlots(requests, slots)].map(async ([receiver, share]) => {
      this.#served.set(receiver, this.#passes);
      const claimed = await this.#deliveries.claimDue(receiver, share, this.#worker.lease);
      for (const claim of claimed) void this.#deliver(claim);
    });
    // Wait for all of them even if one fails: a claim that came later would wait for its lease to end.
    await Promise.allSettled(claims);
    await Promise.all(claims);
    const later = due.map(({ dueAt }) => dueAt).filter((dueAt) => dueAt > now);
    return Math.min(...later) - now;
  }

  async #deliver(claim: Claim): Promise<void> {
    const { receiver } = claim.delivery;
    this.#occupy(receiver, 1);
    await this.#worker.run(claim, performance.now() + TIME_SLICE);
    this.#occupy(receiver, -1);
    this.wake();
  }

  #occupy(receiver: string, change: 1 | -1): void {
    const slots = (this.#running.get(receiver) ?? 0) + change;
    if (slots === 0) this.#running.delete(receiver);
    else this.#running.set(receiver, slots);
    this.#occupied += change;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      this.#awake = false;
      let sleep = this.#interval;
      try {
        sleep = Math.min(sleep, await this.pass());
        this.ok = true;
        this.#outage.worked();
      } catch (error) {
        this.ok = false;
        this.#outage.failed(error);
        await this.#sleep(this.#interval);
        continue;
      }
      if (this.#awake) await pause(BATCH_WINDOW);
      else await this.#sleep(Math.max(sleep, SHORTEST_SLEEP));
    }
  }

  #sleep(milliseconds: number): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      if (!this.#keepAlive) timer.unref();
      this.#interrupt = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
