/**
 * BullMQ jobs that say "look at this receiver" and nothing else: no user, no payload. Each receiver has a fixed number of
 * slots for jobs, and a job's id is `RECEIVER-SLOT`: however many processes request wake-ups, there can't be more.
 */
import type { Queue } from "bullmq";
import type { Redis } from "ioredis";

/** All that a job contains. */
export interface WakeUp {
  readonly receiver: string;
}

/** The name of the queue. */
export const QUEUE = "deliveries";

/** Milliseconds until a slot whose job never arrived is free again. */
const UNUSED = 3000;
/** Milliseconds between two checks of a process that BullMQ can find the jobs of a receiver. */
const LOOK_AGAIN = 5000;

/**
 * Reserves free slots in one step, as many as there are due heads without a waiting job. A job that has started no
 * longer counts as waiting, but keeps its slot until it ends. KEYS: the sorted set of reserved slots whose job has not
 * arrived yet, with the time when they are free again. ARGV: the prefix of the keys of the receiver's jobs, the number of
 * slots, the number of heads, UNUSED, and the prefix of the queue's keys or an empty string. Returns the milliseconds
 * until the last of the reserved slots that were counted is free again, then the slots that are reserved now.
 *
 * A job may exist without being in any list of the queue: someone deleted keys of Redis, or a script of BullMQ stopped
 * halfway at a command that the user may not call. No worker would ever get such a job, so it is deleted. Once a job is
 * found in a list, the others are not checked.
 */
const TAKE_SLOTS = `
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
for slot = 0, tonumber(ARGV[2]) - 1 do
  local job = redis.call("HMGET", ARGV[1] .. slot, "name", "processedOn")
  if looks and job[1] then
    looks = isLost(string.sub(ARGV[1], #ARGV[5] + 1) .. slot)
    if looks then
      redis.call("DEL", ARGV[1] .. slot)
      job = {}
    end
  end
  local left = job[1] and 0 or tonumber(redis.call("ZSCORE", KEYS[1], slot) or 0) - now
  if left > 0 then
    given[1] = math.max(given[1], left)
    wanted = wanted - 1
  elseif not job[1] then
    free[#free + 1] = slot
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

export class WakeUps {
  readonly #queue: Queue<WakeUp>;
  readonly #client: Redis;
  readonly #prefix: string;
  /** When this process last checked the jobs of each receiver. */
  readonly #checked = new Map<string, number>();
  /** The most wake-ups of one receiver, including those that run. */
  readonly perReceiver: number;

  /** @param prefix of all keys. */
  constructor(queue: Queue<WakeUp>, client: Redis, prefix: string, perReceiver: number) {
    this.#queue = queue;
    this.#client = client;
    this.#prefix = prefix;
    this.perReceiver = perReceiver;
  }

  /**
   * Makes sure that as many wake-ups wait as there are heads, as far as the receiver has free slots.
   * @returns milliseconds after which to request again, because another process reserved slots and may never use them;
   * 0 when there is no need.
   */
  async request(receiver: string, heads: number): Promise<number> {
    if (heads === 0) return 0;
    // The id of a job must not contain a colon, and a key that names a receiver contains no full stop.
    const jobs = `${receiver.replace(":", ".")}-`;
    const reserved = `${this.#prefix}:places:${receiver}`;
    const keys = `${this.#prefix}:${QUEUE}:`;
    const check = this.#isCheckDue(receiver) ? keys : "";
    const answer = await this.#client.eval(
      TAKE_SLOTS,
      1,
      reserved,
      keys + jobs,
      this.perReceiver,
      heads,
      UNUSED,
      check,
    );
    const [again = 0, ...slots] = answer as number[];
    if (slots.length === 0) return again;
    // BullMQ ignores a job whose id exists, so none may stay.
    const gone = { removeOnComplete: true, removeOnFail: true };
    await this.#queue.addBulk(
      slots.map((slot) => ({ name: "look", data: { receiver }, opts: { jobId: jobs + slot, ...gone } })),
    );
    // From now on the job itself occupies the slot.
    await this.#client.zrem(reserved, ...slots);
    return again;
  }

  #isCheckDue(receiver: string): boolean {
    const now = performance.now();
    if (now - (this.#checked.get(receiver) ?? -Infinity) < LOOK_AGAIN) return false;
    this.#checked.set(receiver, now);
    return true;
  }
}
