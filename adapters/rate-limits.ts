/** Points that failures take: the contract that every limiter keeps, in memory and shared between processes. */
import type { RateLimit } from "../config/configuration.ts";

/** The answer to a request for a point. */
export interface Taken {
  /** False when none was left: the request must be refused, whatever its secret is. */
  readonly allowed: boolean;
  /** Seconds until a point is there again; for `Retry-After`. */
  readonly retryAfter: number;
}

/** There was a point. */
export const ALLOWED: Taken = Object.freeze({ allowed: true, retryAfter: 0 });

/** There was none. @param wait milliseconds until there is one again. */
export function refused(wait: number): Taken {
  return { allowed: false, retryAfter: Math.max(1, Math.ceil(wait / 1000)) };
}

/**
 * Counts the points of a limit, over windows that begin with the first point that is taken: a window ends as a whole,
 * what is refused is not counted, and there are never more than all points, whatever is given back. Any string is a
 * key; those of the service are short, for they are keyed hashes. A fault of the place where points are counted rejects with `StorageUnavailable`.
 */
export interface RateLimiter {
  /** Takes one point of `key`, atomically: of many parallel calls only as many are allowed as there are points. */
  take(key: string): Promise<Taken>;
  /** Whether there is a point, without taking it: for what is known to be no failure. */
  look(key: string): Promise<Taken>;
  /** Gives one point back after a success. In order after an earlier `take` even if that is not awaited yet. */
  giveBack(key: string): Promise<void>;
}

/** Makes the limiter of one name; names don't share points. */
export type RateLimiterFactory = (name: string, limit: RateLimit) => RateLimiter;
