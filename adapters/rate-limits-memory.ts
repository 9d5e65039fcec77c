/**
 * Rate limits in the memory of this process: rate-limiter-flexible's limiter, over windows that follow the
 * service's clock. The library's own windows follow the system's time, count refused requests, and begin
 * one below zero when a point is given back after the window of its `take` has ended.
 */
import { RateLimiterMemory, RateLimiterRes } from "rate-limiter-flexible";
import type { RateLimit } from "../config/configuration.ts";
import { type Clock, createSystemClock } from "../lib/clock.ts";
import { ALLOWED, type RateLimiter, type RateLimiterFactory, refused } from "./rate-limits.ts";

interface Window {
  taken: number;
  /** Milliseconds since the epoch. */
  readonly endsAt: number;
}

/** What the library's limiter asks of the place where it counts. */
class Windows {
  readonly #limit: RateLimit;
  readonly #clock: Clock;
  /** In the order of their ends, for all are equally long: the ended ones are at the front. */
  readonly #windows = new Map<string, Window>();

  constructor(limit: RateLimit, clock: Clock) {
    this.#limit = limit;
    this.#clock = clock;
  }

  /** Counts `points` up or down. A number above the limit is answered but not kept: it was refused. */
  incrby(key: string, points: number): RateLimiterRes {
    const now = this.#clock.now();
    this.#dropEnded(now);
    const window = this.#windows.get(key) ?? { taken: 0, endsAt: now + this.#limit.seconds * 1000 };
    const wanted = Math.max(0, window.taken + points);
    if (wanted <= this.#limit.points) window.taken = wanted;
    if (window.taken === 0) this.#windows.delete(key);
    else this.#windows.set(key, window);
    return new RateLimiterRes(0, window.endsAt - now, wanted);
  }

  /** Milliseconds until there is a point again; 0 when there is one. */
  wait(key: string): number {
    const now = this.#clock.now();
    this.#dropEnded(now);
    const window = this.#windows.get(key);
    return window !== undefined && window.taken >= this.#limit.points ? window.endsAt - now : 0;
  }

  #dropEnded(now: number): void {
    for (const [key, { endsAt }] of this.#windows) {
      if (endsAt > now) return;
      this.#windows.delete(key);
    }
  }
}

function createLimiter(limit: RateLimit, clock: Clock): RateLimiter {
  const { points, seconds } = limit;
  const windows = new Windows(limit, clock);
  const limiter = Object.assign(new RateLimiterMemory({ points, duration: seconds, keyPrefix: "" }), {
    // The library's name for the place where it counts; a test holds that it uses ours.
    _memoryStorage: windows,
  });
  return {
    // Both count at once, when they are called; only the answer comes later.
    async take(key) {
      try {
        await limiter.consume(key);
        return ALLOWED;
      } catch (refusal) {
        if (!(refusal instanceof RateLimiterRes)) throw refusal;
        return refused(refusal.msBeforeNext);
      }
    },
    async look(key) {
      const wait = windows.wait(limiter.getKey(key));
      return wait === 0 ? ALLOWED : refused(wait);
    },
    async giveBack(key) {
      await limiter.reward(key);
    },
  };
}

/**
 * Limiters for one process; several processes would each allow the whole limit. A window begins with the
 * first point that is taken, and nothing of it is kept after its end.
 * @param clock default: the system's.
 */
export function memoryRateLimits(clock: Clock = createSystemClock()): RateLimiterFactory {
  return (_name, limit) => createLimiter(limit, clock);
}
