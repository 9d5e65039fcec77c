/** Points that failures take: the contract that the in-memory and later the Redis and MongoDB limiter keep. */
import type { RateLimit } from "../config/configuration.ts";

/** The answer to a request for a point. */
export interface Taken {
  /** False when none was left: the request must be refused, whatever its secret is. */
  readonly allowed: boolean;
  /** Seconds until a point is there again; for `Retry-After`. */
  readonly retryAfter: number;
}

export interface RateLimiter {
  /** Takes one point of `key`, atomically: of many parallel calls only as many are allowed as there are points. */
  take(key: string): Promise<Taken>;
  /** Gives one point back after a success. In order after an earlier `take` even if that is not awaited yet. */
  giveBack(key: string): Promise<void>;
}

/** Makes the limiter of one name; names don't share points. */
export type RateLimiterFactory = (name: string, limit: RateLimit) => RateLimiter;
