/**
 * The embedded scheduler: looks at what is due, claims it and has it sent. It looks after a commit of its own process
 * (`wake`), when a place is free again, when the next delivery is due, when the storage tells that another process
 * stored something, and every now and then, for not every storage tells.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Claim, DeliveryStore } from "../lib/deliveries/delivery.ts";
import type { NotificationSettings } from "../config/configuration.ts";
import type { Clock } from "../lib/clock.ts";
import type { Outage } from "../lib/outages.ts";
import type { LaneRunner } from "./lane-run.ts";
import { type Scheduler, TURN } from "./scheduler.ts";
import { keptPlaces, shareOut } from "./shares.ts";

export interface PollerDeps {
  readonly deliveries: Pick<DeliveryStore, "dueReceivers" | "claimDue" | "watch">;
  readonly runner: Pick<LaneRunner, "run" | "terms">;
  readonly clock: Clock;
  readonly settings: Pick<NotificationSettings, "concurrency" | "poll">;
  /** Whether waiting for the next look keeps the process alive. */
  readonly keepAlive: boolean;
  /** Told what came of each look at the storage; after one that failed the next one tries again. */
  readonly outage: Outage;
}

export interface Poller extends Scheduler {
  /** Looks once and begins what is due. @returns milliseconds until something else is, as far as is known. */
  pass(): Promise<number>;
}

/** Milliseconds between two looks, however much there is to do. */
const GATHER = 2;
/** A span in which a timer is still exact. */
const SHORTEST_SLEEP = 1;

class EmbeddedPoller implements Poller {
  ok = true;
  readonly #deps: PollerDeps;
  readonly #running = new Map<string, number>();
  /** When each receiver was served last; only of those that have something waiting. */
  #served = new Map<string, number>();
  #passes = 0;
  #total = 0;
  #awake = false;
  #stopped = false;
  #interrupt: (() => void) | undefined;
  #endWatch: () => void = () => undefined;
  #loop: Promise<void> = Promise.resolve();

  constructor(deps: PollerDeps) {
    this.#deps = deps;
  }

  wake(): void {
    this.#awake = true;
    this.#interrupt?.();
  }

  start(): void {
    this.#endWatch = this.#deps.deliveries.watch(() => this.wake());
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

  async pass(): Promise<number> {
    const { deliveries, clock, settings, runner } = this.#deps;
    const due = await deliveries.dueReceivers();
    const now = clock.now();
    const ready = due.filter(({ dueAt }) => dueAt <= now).map(({ receiver }) => receiver);
    this.#served = new Map(due.map(({ receiver }) => [receiver, this.#served.get(receiver) ?? 0] as const));
    this.#passes += 1;
    const { total, perReceiver: most } = settings.concurrency;
    const places = { free: total - this.#total, most, kept: keptPlaces(settings.concurrency) };
    const asking = ready.map((receiver) => ({
      receiver,
      running: this.#running.get(receiver) ?? 0,
      served: this.#served.get(receiver) ?? 0,
    }));
    const claims = [...shareOut(asking, places)].map(async ([receiver, share]) => {
      this.#served.set(receiver, this.#passes);
      for (const claim of await deliveries.claimDue(receiver, share, runner.terms)) void this.#begin(claim);
    });
    // All of them, though one has failed: what is claimed after the end would wait for its lease to end.
    await Promise.allSettled(claims);
    await Promise.all(claims);
    const later = due.map(({ dueAt }) => dueAt).filter((dueAt) => dueAt > now);
    return Math.min(...later) - now;
  }

  async #begin(claim: Claim): Promise<void> {
    const { receiver } = claim.delivery;
    this.#count(receiver, 1);
    await this.#deps.runner.run(claim, performance.now() + TURN);
    this.#count(receiver, -1);
    this.wake();
  }

  #count(receiver: string, change: 1 | -1): void {
    const places = (this.#running.get(receiver) ?? 0) + change;
    if (places === 0) this.#running.delete(receiver);
    else this.#running.set(receiver, places);
    this.#total += change;
  }

  async #run(): Promise<void> {
    const interval = this.#deps.settings.poll * 1000;
    while (!this.#stopped) {
      this.#awake = false;
      let sleep = interval;
      try {
        sleep = Math.min(interval, await this.pass());
        this.ok = true;
        this.#deps.outage.worked();
      } catch (error) {
        this.ok = false;
        this.#deps.outage.failed(error);
        await this.#sleep(interval);
        continue;
      }
      // What ends meanwhile is gathered: one look finds work for many places as well as for one.
      if (this.#awake) await pause(GATHER);
      else await this.#sleep(Math.max(sleep, SHORTEST_SLEEP));
    }
  }

  #sleep(milliseconds: number): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      if (!this.#deps.keepAlive) timer.unref();
      this.#interrupt = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

export function createPoller(deps: PollerDeps): Poller {
  return new EmbeddedPoller(deps);
}
