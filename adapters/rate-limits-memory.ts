/** Rate limits in the memory of this process: fixed windows that follow the service's clock, and a bound on them. */
import type { RateLimit } from "../config/configuration.ts";
import type { Clock } from "./clock.ts";
import { ALLOWED, type RateLimiter, type RateLimiterFactory, refused, type Taken } from "./rate-limits.ts";

/** The most keys that one limiter keeps. */
const MOST_KEYS = 20_000;

interface Window {
  taken: number;
  /** Milliseconds since the epoch. */
  readonly endsAt: number;
}

/** The open windows of one limiter. */
class Windows {
  readonly #limit: RateLimit;
  readonly #clock: Clock;
  /** In the order of their ends, for all are equally long: the ended ones are at the front. */
  readonly #windows = new Map<string, Window>();
  /** The keys by the points that they have taken, so that the one with the fewest is found at once. */
  readonly #levels = new Map<number, Set<string>>();

  constructor(limit: RateLimit, clock: Clock) {
    this.#limit = limit;
    this.#clock = clock;
  }

  /** Takes a point. @returns milliseconds until there is one again; 0 when there was one. */
  take(key: string): number {
    const wait = this.wait(key);
    if (wait > 0) return wait;
    const window = this.#windows.get(key);
    if (window !== undefined) this.#move(key, window, window.taken + 1);
    else if (this.#makeRoom()) this.#open(key);
    return 0;
  }

  giveBack(key: string): void {
    this.#dropEnded();
    const window = this.#windows.get(key);
    if (window === undefined) return;
    if (window.taken > 1) this.#move(key, window, window.taken - 1);
    else this.#drop(key, window);
  }

  /** Milliseconds until there is a point again; 0 when there is one. */
  wait(key: string): number {
    this.#dropEnded();
    const window = this.#windows.get(key);
    return window !== undefined && window.taken >= this.#limit.points ? window.endsAt - this.#clock.now() : 0;
  }

  #open(key: string): void {
    this.#windows.set(key, { taken: 1, endsAt: this.#clock.now() + this.#limit.seconds * 1000 });
    this.#level(1).add(key);
  }

  #move(key: string, window: Window, taken: number): void {
    this.#leaveLevel(key, window.taken);
    window.taken = taken;
    this.#level(taken).add(key);
  }

  #drop(key: string, { taken }: Window): void {
    this.#windows.delete(key);
    this.#leaveLevel(key, taken);
  }

  #level(taken: number): Set<string> {
    const known = this.#levels.get(taken);
    if (known !== undefined) return known;
    const level = new Set<string>();
    this.#levels.set(taken, level);
    return level;
  }

  #leaveLevel(key: string, taken: number): void {
    const level = this.#level(taken);
    level.delete(key);
    if (level.size === 0) this.#levels.delete(taken);
  }

  #dropEnded(): void {
    const now = this.#clock.now();
    for (const [key, window] of this.#windows) {
      if (window.endsAt > now) return;
      this.#drop(key, window);
    }
  }

  /**
   * Makes room for one more key: the one with the fewest points goes, of several the one that has them for longest.
   * A window without points left never goes, or a flood of new keys would end the lock-outs of others.
   */
  #makeRoom(): boolean {
    if (this.#windows.size < MOST_KEYS) return true;
    const fewest = Math.min(...this.#levels.keys());
    if (fewest >= this.#limit.points) return false;
    const [key = ""] = this.#level(fewest);
    this.#drop(key, { taken: fewest, endsAt: 0 });
    return true;
  }
}

const answer = (wait: number): Taken => (wait === 0 ? ALLOWED : refused(wait));

function createLimiter(limit: RateLimit, clock: Clock): RateLimiter {
  const windows = new Windows(limit, clock);
  return {
    // Each counts at once, when it is called; only the answer comes later.
    take: async (key) => answer(windows.take(key)),
    look: async (key) => answer(windows.wait(key)),
    giveBack: async (key) => windows.giveBack(key),
  };
}

/**
 * Limiters for one process; several processes would each allow the whole limit. A window begins with the first point
 * that is taken, and nothing of it is kept after its end. A limiter keeps 20,000 keys: for one more it forgets the key
 * that has taken the fewest points.
 */
export function memoryRateLimits(clock: Clock): RateLimiterFactory {
  return (_name, limit) => createLimiter(limit, clock);
}
