/**
 * Rate limits that all processes share: rate-limiter-flexible's limiter for MongoDB, over windows of our own. The
 * library's follow the system's clock, count refused requests, and begin below zero when a point is given back after
 * their end.
 */
import { RateLimiterMongo, RateLimiterRes } from "rate-limiter-flexible";
import type { RateLimit } from "../../config/configuration.ts";
import { ALLOWED, type RateLimiter, type RateLimiterFactory, refused } from "../rate-limits.ts";
import type { Connection } from "./connection.ts";
import { toKey } from "./keys.ts";
import { Points } from "./points.ts";

/** What the library asks to be written. */
interface Asked {
  readonly $inc: { readonly points: number };
}

/** All that the library asks of a database; a test holds that it asks this. */
function database(points: Points): object {
  return {
    collection: () => ({
      async findOneAndUpdate({ key }: { readonly key: string }, { $inc }: Asked) {
        const counted = await points.add(key, $inc.points);
        return { points: counted.points, expire: new Date(Date.now() + counted.left) };
      },
    }),
  };
}

function createLimiter(connection: Connection, name: string, limit: RateLimit): RateLimiter {
  const points = new Points(connection, limit);
  const limiter = new RateLimiterMongo({
    points: limit.points,
    duration: limit.seconds,
    keyPrefix: "",
    storeClient: database(points),
    disableIndexesCreation: true,
  });
  return {
    async take(key) {
      try {
        await limiter.consume(toKey(name, key));
        return ALLOWED;
      } catch (refusal) {
        if (!(refusal instanceof RateLimiterRes)) throw refusal;
        return refused(refusal.msBeforeNext);
      }
    },
    async look(key) {
      const counted = await points.look(toKey(name, key));
      return counted.points < limit.points ? ALLOWED : refused(counted.left);
    },
    async giveBack(key) {
      await limiter.reward(toKey(name, key));
    },
  };
}

/** Limiters of all processes that have this database. Their windows follow the storage's clock. */
export function mongoRateLimits(connection: Connection): RateLimiterFactory {
  return (name, limit) => createLimiter(connection, name, limit);
}
