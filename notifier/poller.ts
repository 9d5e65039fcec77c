/**
 * Polls for due deliveries, claims them and hands them to the lane worker. It polls after each commit of its own
 * process (`wake`), when a slot becomes free, when the next delivery is due, when the storage reports a change by
 * another process, and at a fixed interval, because not every storage reports changes.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Claim, DeliveryStore, DueReceiver } from "../records/deliveries/delivery.ts";
import type { Configuration, NotificationSettings } from "../config/configuration.ts";
import type { Clock } from "../core/clock.ts";
import type { Outage } from "../core/outages.ts";
import type { StorageServices } from "../records/services.ts";
import { isUnknownReceiver } from "./receivers.ts";
import type { LaneWorker } from "./sending/lane-worker.ts";

/**
 * Decides when to poll for due deliveries. The records are the source of truth; a lost wake-up only delays a delivery.
 */
export interface Scheduler {
  /** Something may be due. */
  wake(): void;
  /** Begins to deliver. */
  start(): void;
  /** Claims nothing more. The lane worker handles running deliveries. */
  stop(): Promise<void>;
  /** Releases all resources, once nothing runs any more. */
  close(): Promise<void>;
  /** Whether the last poll succeeded. */
  readonly ok: boolean;
  /** Why the queue can't be used, whatever the storage does. `undefined` if it can, or if there is none but the storage. */
  readonly queueProblem: string | undefined;
}

/**
 * Milliseconds for which a slot stays with one receiver that has one delivery after the other, before other receivers
 * can get it. Claiming the next delivery together with the last result costs less than a new poll.
 */
export const TIME_SLICE_MS = 250;

/** A receiver with due deliveries. */
export interface SlotRequest {
  readonly receiver: string;
  /** Slots that it occupies now. */
  readonly running: number;
  /** The number of the pass in which it last got a slot; 0 for never. */
  readonly served: number;
}

export interface Slots {
  readonly free: number;
  /** The most that one receiver may occupy. */
  readonly perReceiver: number;
  /**
   * How many of the free slots are for receivers that occupy none, so that a new receiver finds a slot however many
   * others hang.
   */
  readonly reserved: number;
}

/** One slot in five is reserved for receivers that occupy none. */
const RESERVED_SHARE = 5;

/** How many slots are reserved: none if one receiver may occupy all of them. */
export function reservedSlots({ total, perReceiver }: NotificationSettings["concurrency"]): number {
  return Math.max(0, Math.min(Math.floor(total / RESERVED_SHARE), total - perReceiver));
}

/**
 * Hands out slots one by one, first to receivers that occupy the fewest, and among those to the one that has waited
 * longest.
 * @returns how many each receiver gets; those that get none are left out.
 */
export function shareSlots(
  requests: readonly SlotRequest[],
  { free, perReceiver, reserved }: Slots,
): Map<string, number> {
  const shares = new Map<string, number>();
  const order = requests.toSorted((a, b) => a.running - b.running || a.served - b.served);
  let left = free;
  // Level by level: every receiver that occupies `level` slots gets one more.
  for (let level = 0; level < perReceiver; level += 1) {
    for (const { receiver, running } of order) {
      if (running > level) break;
      if (left <= (level === 0 ? 0 : reserved)) return shares;
      shares.set(receiver, (shares.get(receiver) ?? 0) + 1);
      left -= 1;
    }
  }
  return shares;
}

/**
 * Milliseconds between two polls. Deliveries that end in the meantime are gathered: one poll fills many slots for the
 * cost of one. Without the pause a busy process spends more on polling than on delivering.
 */
const BATCH_WINDOW_MS = 2;
/** The longest pause after a failed poll. */
const MAX_RETRY_MS = 2000;
/** The shortest time that a timer can measure. */
const MIN_SLEEP_MS = 1;

/** The name of the work in the log. */
export const LOOKING = "looking for deliveries that are due";

/** How a poller polls. */
export interface Polling {
  /** Runs what is claimed. */
  readonly worker: Pick<LaneWorker, "run" | "lease">;
  /** Records whether polls succeed; the next poll retries one that failed. */
  readonly outage: Outage;
  /** The longest time between two polls, in seconds. Default: that of the configuration. */
  readonly poll?: number;
  /** Whether waiting for the next poll keeps the process alive. Default: `false`. */
  readonly keepAlive?: boolean | undefined;
  /**
   * Passes on receivers for which this process has no slot, or which it does not deliver to.
   * @returns milliseconds until the next poll, if they are still due then.
   */
  readonly passOn?: (receivers: readonly string[]) => Promise<number>;
}

export class Poller implements Scheduler {
  ok = true;
  readonly queueProblem: undefined;
  readonly #deliveries: DeliveryStore;
  readonly #clock: Clock;
  readonly #settings: NotificationSettings;
  readonly #events: Configuration["events"];
  readonly #polling: Polling;
  /** Occupied slots of each receiver. */
  readonly #running = new Map<string, number>();
  #occupied = 0;
  /** The pass in which each receiver last got a slot; only of receivers with something waiting. */
  #served = new Map<string, number>();
  #passes = 0;
  #delivers = false;
  #awake = false;
  #stopped = false;
  #interrupt: (() => void) | undefined;
  #endWatch: () => void = () => undefined;
  #loop: Promise<void> | undefined;

  constructor(
    { storage, clock, configuration }: Pick<StorageServices, "storage" | "clock" | "configuration">,
    polling: Polling,
  ) {
    this.#deliveries = storage.deliveries;
    this.#clock = clock;
    this.#settings = configuration.notifications;
    this.#events = configuration.events;
    this.#polling = polling;
  }

  /** A process that does not deliver polls only if it can pass on what is due. */
  wake(): void {
    this.#awake = true;
    this.#interrupt?.();
    if (this.#polling.passOn !== undefined) this.#begin();
  }

  start(): void {
    this.#delivers = true;
    this.#endWatch = this.#deliveries.watch(() => this.wake());
    this.#awake = true;
    this.#interrupt?.();
    this.#begin();
  }

  #begin(): void {
    if (!this.#stopped) this.#loop ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#endWatch();
    this.#interrupt?.();
    await this.#loop;
  }

  async close(): Promise<void> {
    await this.#loop;
  }

  /** Polls once and starts due deliveries. @returns milliseconds until the next known delivery is due. */
  async pass(): Promise<number> {
    const { passOn } = this.#polling;
    const passesAllOn = !this.#delivers && passOn !== undefined;
    const { perReceiver } = this.#settings.concurrency;
    const all = await this.#deliveries.dueReceivers(passesAllOn ? 0 : perReceiver);
    const due = passesAllOn ? all : all.filter(({ receiver }) => !isUnknownReceiver(this.#events, receiver));
    const now = this.#clock.now();
    const found = new Map(
      due.filter(({ dueAt }) => dueAt <= now).map((each) => [each.receiver, each] as const),
    );
    const ready = [...found.keys()];
    if (passesAllOn) return ready.length === 0 ? Infinity : passOn(ready);
    this.#served = new Map(due.map(({ receiver }) => [receiver, this.#served.get(receiver) ?? 0] as const));
    this.#passes += 1;
    const shares = this.#share(ready);
    const claims = [...shares].map(([receiver, share]) => this.#claim(receiver, share, found.get(receiver)));
    // Wait for all of them even if one fails: a claim that came later would wait for its lease to end.
    await Promise.allSettled(claims);
    const unserved = new Set(ready);
    for (const [index, [receiver, share]] of [...shares].entries())
      if (((await claims[index]) as number) < share) unserved.delete(receiver);
    const again = passOn === undefined || unserved.size === 0 ? Infinity : await passOn([...unserved]);
    const later = due.map(({ dueAt }) => dueAt).filter((dueAt) => dueAt > now);
    return Math.min(again, ...later.map((dueAt) => dueAt - now));
  }

  /** Starts what is due for one receiver. @returns whether there was a slot for it. */
  async serve(receiver: string): Promise<boolean> {
    const isServed = !this.#stopped && !isUnknownReceiver(this.#events, receiver);
    const share = isServed ? this.#share([receiver]).get(receiver) : undefined;
    if (share === undefined) return false;
    // There may be more deliveries than it had slots for.
    if ((await this.#claim(receiver, share)) === share) this.wake();
    return true;
  }

  #share(receivers: readonly string[]): Map<string, number> {
    const { concurrency } = this.#settings;
    const { total, perReceiver } = concurrency;
    const reserved = reservedSlots(concurrency);
    const requests = receivers.map((receiver) => ({
      receiver,
      running: this.#running.get(receiver) ?? 0,
      served: this.#served.get(receiver) ?? 0,
    }));
    return shareSlots(requests, { free: total - this.#occupied, perReceiver, reserved });
  }

  /**
   * Claims and starts at most `share` deliveries. Their slots are occupied from the call on.
   * @param found the receiver as the last look found it. Default: what is due is read. @returns how many.
   */
  async #claim(receiver: string, share: number, found?: DueReceiver): Promise<number> {
    this.#served.set(receiver, this.#passes);
    this.#occupy(receiver, share);
    let claims: Claim[] = [];
    try {
      claims = await this.#deliveries.claimDue(found ?? receiver, share, this.#polling.worker.lease);
    } finally {
      this.#occupy(receiver, claims.length - share);
    }
    for (const claim of claims) void this.#deliver(claim);
    return claims.length;
  }

  async #deliver(claim: Claim): Promise<void> {
    await this.#polling.worker.run(claim, performance.now() + TIME_SLICE_MS);
    this.#occupy(claim.delivery.receiver, -1);
    this.wake();
  }

  #occupy(receiver: string, change: number): void {
    const slots = (this.#running.get(receiver) ?? 0) + change;
    if (slots === 0) this.#running.delete(receiver);
    else this.#running.set(receiver, slots);
    this.#occupied += change;
  }

  async #run(): Promise<void> {
    const { outage, poll = this.#settings.poll } = this.#polling;
    const intervalMs = poll * 1000;
    while (!this.#stopped) {
      this.#awake = false;
      let sleepMs: number;
      try {
        sleepMs = await this.pass();
        this.ok = true;
        outage.worked();
      } catch (error) {
        if (this.#stopped) return;
        this.ok = false;
        outage.failed(error);
        await this.#sleep(Math.min(intervalMs, MAX_RETRY_MS));
        continue;
      }
      if (this.#awake) await pause(BATCH_WINDOW_MS);
      else
        await this.#sleep(Math.max(this.#delivers ? Math.min(sleepMs, intervalMs) : sleepMs, MIN_SLEEP_MS));
    }
  }

  /** `wake` ends it early. */
  #sleep(milliseconds: number): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = milliseconds === Infinity ? undefined : setTimeout(resolve, milliseconds);
      if (!this.#polling.keepAlive) timer?.unref();
      this.#interrupt = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
