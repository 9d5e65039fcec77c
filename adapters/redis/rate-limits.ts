/**
 * Rate limits that all processes share: rate-limiter-flexible's limiter for Redis, with a script of our own. The
 * library's goes by the clock of Redis, counts what is refused, and begins a window below zero when a point is given
 * back after its end.
 */
import { RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import type { RateLimit } from "../../config/configuration.ts";
import type { Clock } from "../../lib/clock.ts";
import { ALLOWED, type RateLimiter, type RateLimiterFactory, refused } from "../rate-limits.ts";
import type { Connection } from "./connection.ts";
import { part } from "./names.ts";
import type { Ask } from "./turns.ts";

/** What points are counted with. */
export interface LimiterParts {
  readonly connection: Connection;
  readonly ask: Ask;
  /** What all keys begin with. */
  readonly prefix: string;
  /** Decides when a window ends. */
  readonly clock: Clock;
}

function createLimiter({ connection, ask, prefix, clock }: LimiterParts, limit: RateLimit): RateLimiter {
  const limiter = new RateLimiterRedis({
    points: limit.points,
    duration: limit.seconds,
    keyPrefix: prefix,
    // All that the library asks of a client; a test holds that it asks this.
    storeClient: {
      async rlflxIncr([key = "", points = "", seconds = "", most = ""]: readonly string[]) {
        return (await ask(["count", key, points, seconds, most])).split("\n").map(Number);
      },
    },
  });
  return {
    take: (key) =>
      connection.during(async () => {
        try {
          await limiter.consume(part(key));
          return ALLOWED;
        } catch (refusal) {
          if (!(refusal instanceof RateLimiterRes)) throw refusal;
          return refused(refusal.msBeforeNext);
        }
      }),
    look: (key) =>
      connection.during(async () => {
        const window = await ask(["get", limiter.getKey(part(key))]);
        if (window === "") return ALLOWED;
        const [taken = 0, till = 0] = window.split(" ").map(Number);
        const left = till - clock.now();
        return taken < limit.points || left <= 0 ? ALLOWED : refused(left);
      }),
    giveBack: (key) =>
      connection.during(async () => {
        await limiter.reward(part(key));
      }),
  };
}

/** Limiters of all processes that have this Redis. */
export function redisRateLimits(parts: LimiterParts): RateLimiterFactory {
  return (name, limit) => createLimiter({ ...parts, prefix: `${parts.prefix}points:${part(name)}` }, limit);
}
