/**
 * Jobs of BullMQ that say "look at this receiver", and nothing else: no user, no payload. Each receiver has a number
 * of places, and the id of a job is `RECEIVER-PLACE`: however many processes ask, there can't be more.
 */
import type { Queue } from "bullmq";
import type { Redis } from "ioredis";

/** All that a job holds. */
export interface WakeUp {
  readonly receiver: string;
}

/** The queue's name. */
export const QUEUE = "deliveries";

/** Milliseconds until a place that was taken for a job that never came is free again. */
const UNUSED = 3000;
/** Milliseconds between two looks of a process whether the jobs of a receiver are where BullMQ finds them. */
const LOOK_AGAIN = 5000;

/**
 * Gives out free places in one step, as many as there are heads due and no wake-up waiting for them. A job that has
 * begun is no longer one that waits, but has its place until it ends. KEYS: the sorted set of places that were
 * given and whose job is not there yet, with the time when they are free again. ARGV: what the keys of the
 * receiver's jobs begin with, places, heads, UNUSED, and what the keys of the queue begin with or nothing. Returns
 * milliseconds until the last of the places is free that count because they were given, then the places that are
 * given now.
 *
 * A job may be there and in none of the queue's lists: Redis was told to forget keys, or a script of BullMQ was stopped
 * in the middle by a command that the user may not use. Nobody would ever come to it, so it is taken away. The
 * first that is where it belongs vouches for the others.
 */
const TAKE_PLACES = `
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local wanted = tonumber(ARGV[3])
local free = {}
local given = {0}
local looks = ARGV[5] ~= ""
local function isLost(id)
  for _, list in ipairs({"wait", "active", "paused"}) do
    if redis.call("LPOS", ARGV[5] .. list, id) then return false end
  end
  return not redis.call("ZSCORE", ARGV[5] .. "delayed", id)
end
for place = 0, tonumber(ARGV[2]) - 1 do
  local job = redis.call("HMGET", ARGV[1] .. place, "name", "processedOn")
  if looks and job[1] then
    looks = isLost(string.sub(ARGV[1], #ARGV[5] + 1) .. place)
    if looks then
      redis.call("DEL", ARGV[1] .. place)
      job = {}
    end
  end
  local left = job[1] and 0 or tonumber(redis.call("ZSCORE", KEYS[1], place) or 0) - now
  if left > 0 then
    given[1] = math.max(given[1], left)
    wanted = wanted - 1
  elseif not job[1] then
    free[#free + 1] = place
  elseif not job[2] then
    wanted = wanted - 1
  end
  if wanted <= 0 then return given end
end
for i = 1, math.min(wanted, #free) do
  redis.call("ZADD", KEYS[1], now + ARGV[4], free[i])
  given[i + 1] = free[i]
end
if #given > 1 then redis.call("PEXPIRE", KEYS[1], ARGV[4]) end
return given`;

export interface WakeUps {
  /** How many wake-ups of one receiver there are at most, those that run included. */
  readonly places: number;
  /**
   * Sees to it that so many wake-ups wait, as far as the receiver has places.
   * @returns milliseconds after which to ask again, for somebody else took places and may never use them; 0: no need.
   */
  ask(receiver: string, heads: number): Promise<number>;
}

/** The id of a job must not hold a colon; nor does a key that names a receiver hold a full stop. */
function jobsOf(receiver: string): string {
  return `${receiver.replace(":", ".")}-`;
}

export interface WakeUpDeps {
  readonly queue: Queue<WakeUp>;
  readonly client: Redis;
  /** What all keys begin with. */
  readonly prefix: string;
  /** How many attempts at once one receiver may have in a process: it has twice as many places. */
  readonly share: number;
}

export function createWakeUps({ queue, client, prefix, share }: WakeUpDeps): WakeUps {
  const places = 2 * share;
  const lookedAt = new Map<string, number>();

  function isToLook(receiver: string): boolean {
    const now = performance.now();
    if (now - (lookedAt.get(receiver) ?? -Infinity) < LOOK_AGAIN) return false;
    lookedAt.set(receiver, now);
    return true;
  }

  return {
    places,
    async ask(receiver, heads) {
      if (heads === 0) return 0;
      const jobs = jobsOf(receiver);
      const taken = `${prefix}:places:${receiver}`;
      const keys = `${prefix}:${QUEUE}:`;
      const look = isToLook(receiver) ? keys : "";
      const answer = await client.eval(TAKE_PLACES, 1, taken, keys + jobs, places, heads, UNUSED, look);
      const [again = 0, ...given] = answer as number[];
      if (given.length === 0) return again;
      // A job that stayed would swallow the next one of its id.
      const gone = { removeOnComplete: true, removeOnFail: true };
      await queue.addBulk(
        given.map((place) => ({ name: "look", data: { receiver }, opts: { jobId: jobs + place, ...gone } })),
      );
      // The job holds the place from here on.
      await client.zrem(taken, ...given);
      return again;
    },
  };
}
