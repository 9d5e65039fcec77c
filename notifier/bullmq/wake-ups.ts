/**
 * Jobs of BullMQ that say "look at this receiver", and nothing else: no user, no payload. Their id is
 * `DELIVERY-ATTEMPT` of the head that is due, so that many processes may ask for the same one.
 */
import type { Queue } from "bullmq";
import type { Redis } from "ioredis";
import type { LaneHead } from "../../adapters/deliveries.ts";

/** All that a job holds. */
export interface WakeUp {
  readonly receiver: string;
}

/** The queue's name, and what all its keys begin with. */
export const QUEUE = "deliveries";
export const PREFIX = "sign-in-service";

const jobKey = `${PREFIX}:${QUEUE}:`;

/** Milliseconds until a place that was taken for a job that never came is free again. */
const UNUSED = 10_000;

/**
 * Which wake-ups of one receiver wait is a sorted set; places are given out in one step, however many processes
 * ask. A member counts until its job runs or is gone; its score is when the place was taken, or 0 once the job is
 * there. KEYS: the set, the list of running jobs. ARGV: what keys of jobs begin with, places, UNUSED, ids.
 */
const TAKE_PLACES = `
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = redis.call("ZRANGE", KEYS[1], 0, -1, "WITHSCORES")
for i = 1, #held, 2 do
  local taken = tonumber(held[i + 1])
  if redis.call("EXISTS", ARGV[1] .. held[i]) == 0 then
    if taken == 0 or now - taken > tonumber(ARGV[3]) then redis.call("ZREM", KEYS[1], held[i]) end
  elseif redis.call("LPOS", KEYS[2], held[i]) then
    redis.call("ZREM", KEYS[1], held[i])
  end
end
local free = tonumber(ARGV[2]) - redis.call("ZCARD", KEYS[1])
local given = {}
for i = 4, #ARGV do
  if #given >= free then break end
  if not redis.call("ZSCORE", KEYS[1], ARGV[i]) and redis.call("EXISTS", ARGV[1] .. ARGV[i]) == 0 then
    redis.call("ZADD", KEYS[1], now, ARGV[i])
    given[#given + 1] = ARGV[i]
  end
end
return given`;

export interface WakeUps {
  /** Sees to it that wake-ups for these heads wait, as far as the receiver has places. */
  add(receiver: string, heads: readonly LaneHead[]): Promise<void>;
}

/** @param places how many wake-ups of one receiver wait in Redis at most; those that run come on top. */
export function createWakeUps(queue: Queue<WakeUp>, client: Redis, places: number): WakeUps {
  return {
    async add(receiver, heads) {
      if (heads.length === 0) return;
      const set = `${PREFIX}:waiting:${receiver}`;
      const ids = heads.map(({ id, attempts }) => `${id}-${attempts}`);
      const given = (await client.eval(
        TAKE_PLACES,
        2,
        set,
        `${jobKey}active`,
        jobKey,
        places,
        UNUSED,
        ...ids,
      )) as string[];
      if (given.length === 0) return;
      // A job that stayed would swallow the next one of its id.
      const gone = { removeOnComplete: true, removeOnFail: true };
      await queue.addBulk(
        given.map((jobId) => ({ name: "look", data: { receiver }, opts: { jobId, ...gone } })),
      );
      await client.zadd(set, "XX", ...given.flatMap((id) => [0, id]));
    },
  };
}
