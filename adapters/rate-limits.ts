/** Rate limits: the contract of every limiter, and the limiters that count in the memory of one process. */
import type { RateLimit } from "../config/configuration.ts";
import type { Clock } from "../core/clock.ts";

/** The answer to a request for a point. */
export interface Taken {
  /** False when no point was left: refuse the request, even if its secret is right. */
  readonly allowed: boolean;
  /** Seconds until there is a point again, for `Retry-After`. */
  readonly retryAfter: number;
}

export const ALLOWED: Taken = Object.freeze({ allowed: true, retryAfter: 0 });

/** @param wait milliseconds until there is a point again. */
export function refused(wait: number): Taken {
  return { allowed: false, retryAfter: Math.max(1, Math.ceil(wait / 1000)) };
}

/**
 * Counts the points of a limit in fixed windows. A window begins with the first point that is taken and ends as a
 * whole. Refused requests are not counted, and giving points back never makes more than the limit. Any string is a
 * key; the service uses keyed hashes. Faults reject with `StorageUnavailable`.
 */
export interface RateLimiter {
  /** Takes one point of `key`, atomically: parallel calls never get more points than there are. */
  take(key: string): Promise<Taken>;
  /** Whether there is a point, without taking it. */
  look(key: string): Promise<Taken>;
  /** Gives one point back after a success. Takes effect after an earlier `take`, even one that is not awaited yet. */
  giveBack(key: string): Promise<void>;
}

/** Makes the limiter of a name. Limiters with different names share no points. */
export type RateLimiterFactory = (name: string, limit: RateLimit) => RateLimiter;

/** The most keys that one limiter in memory keeps. */
const MAX_KEYS = 20_000;

interface Window {
  taken: number;
  /** Milliseconds since the epoch. */
  endsAt: number;
}

/** The open windows of one limiter. */
class Windows {
  #limit: RateLimit;
  readonly #clock: Clock;
  /** Ordered by end, since all windows are equally long: those that have ended come first. */
  readonly #windows = new Map<string, Window>();
  /** The keys by the number of points taken, to find one with the fewest quickly. */
  readonly #keysByTaken = new Map<number, Set<string>>();

  constructor(limit: RateLimit, clock: Clock) {
    this.#limit = limit;
    this.#clock = clock;
  }

  /** A window that is open ends no later than one that begins now, so that the order stays. */
  useLimit(limit: RateLimit): void {
    this.#limit = limit;
    const latest = this.#clock.now() + limit.seconds * 1000;
    for (const window of this.#windows.values()) window.endsAt = Math.min(window.endsAt, latest);
  }

  /** Takes a point. @returns milliseconds until there is one again; 0 when there was one. */
  take(key: string): number {
    const wait = this.wait(key);
    if (wait > 0) return wait;
    const window = this.#windows.get(key);
    if (window !== undefined) this.#change(key, window, window.taken + 1);
    else if (this.#evict()) this.#open(key);
    return 0;
  }

  giveBack(key: string): void {
    this.#deleteEnded();
    const window = this.#windows.get(key);
    if (window === undefined) return;
    if (window.taken > 1) this.#change(key, window, window.taken - 1);
    else this.#delete(key, window);
  }

  /** Milliseconds until there is a point again; 0 when there is one. */
  wait(key: string): number {
    this.#deleteEnded();
    const window = this.#windows.get(key);
    return window !== undefined && window.taken >= this.#limit.points ? window.endsAt - this.#clock.now() : 0;
  }

  #open(key: string): void {
    this.#windows.set(key, { taken: 1, endsAt: this.#clock.now() + this.#limit.seconds * 1000 });
    this.#keysWith(1).add(key);
  }

  #change(key: string, window: Window, taken: number): void {
    this.#forget(key, window.taken);
    window.taken = taken;
    this.#keysWith(taken).add(key);
  }

  #delete(key: string, { taken }: Window): void {
    this.#windows.delete(key);
    this.#forget(key, taken);
  }

  #keysWith(taken: number): Set<string> {
    const known = this.#keysByTaken.get(taken);
    if (known !== undefined) return known;
    const keys = new Set<string>();
    this.#keysByTaken.set(taken, keys);
    return keys;
  }

  #forget(key: string, taken: number): void {
    const keys = this.#keysWith(taken);
    keys.delete(key);
    if (keys.size === 0) this.#keysByTaken.delete(taken);
  }

  #deleteEnded(): void {
    const now = this.#clock.now();
    for (const [key, window] of this.#windows) {
      if (window.endsAt > now) return;
      this.#delete(key, window);
    }
  }

  /**
   * Makes space for one more key by deleting the one with the fewest points taken; of several, the oldest. A key
   * without points left is never deleted, or a flood of new keys would unlock the others.
   */
  #evict(): boolean {
    if (this.#windows.size < MAX_KEYS) return true;
    const fewest = Math.min(...this.#keysByTaken.keys());
    if (fewest >= this.#limit.points) return false;
    const [key = ""] = this.#keysWith(fewest);
    this.#delete(key, { taken: fewest, endsAt: 0 });
    return true;
  }
}

const answer = (wait: number): Taken => (wait === 0 ? ALLOWED : refused(wait));

/**
 * Limiters for one process: several processes would each allow the whole limit. Making the limiter of a name again, maybe
 * with another limit, continues its counts. A limiter keeps 20,000 keys; to add
 * one more it deletes the key that has taken the fewest points.
 */
export function memoryRateLimits(clock: Clock): RateLimiterFactory {
  const limiters = new Map<string, Windows>();
  return (name, limit) => {
    const windows = limiters.get(name) ?? new Windows(limit, clock);
    limiters.set(name, windows);
    windows.useLimit(limit);
    return {
      // Each call counts immediately; only the answer is asynchronous.
      take: async (key) => answer(windows.take(key)),
      look: async (key) => answer(windows.wait(key)),
      giveBack: async (key) => windows.giveBack(key),
    };
  };
}
