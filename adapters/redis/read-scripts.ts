/** What Redis runs to read more than one artifact in one step. */
import { ANSWERED_WITHIN } from "../artifacts.ts";
import { type Script, script } from "./script.ts";

/** What a reader gets of each artifact, in this order. */
export const READ_FIELDS = ["p", "e", "c", "r", "t", "g", "u", "a", "l", "m", "b"] as const;

/** The same as arguments in a script. */
export const FIELD_LIST: string = READ_FIELDS.map((name) => `"${name}"`).join(", ");

/** ARGV: the key of an artifact, and when the request that consumed it was answered: not before it did; the first counts. */
export const NOTE_ANSWER: Script = script(`
local at, noted = tonumber(ARGV[2]), tonumber(redis.call("HGET", ARGV[1], "n") or "")
if noted and at < noted then
  redis.call("HSET", ARGV[1], "n", string.format("%.3f", math.max(at, noted - ${ANSWERED_WITHIN})))
end`);

/** ARGV: the key of an artifact. The answer: milliseconds since the request that consumed it was answered, or nothing. */
export const SINCE_ANSWER: Script = script(`
local time, noted = redis.call("TIME"), redis.call("HGET", ARGV[1], "n")
return noted and string.format("%.3f", time[1] * 1000 + time[2] / 1000 - tonumber(noted)) or ""`);

/** ARGV: prefix, index, models (none: all). The answer: id and fields of each. */
export const LIST: Script = script(`
local wanted, found = {}, {}
for i = 3, #ARGV do wanted[ARGV[i]] = true end
for _, id in ipairs(redis.call("ZRANGE", ARGV[1] .. ARGV[2], 0, -1)) do
  if #ARGV == 2 or wanted[string.match(id, "^[^:]*")] then
    local fields = redis.call("HMGET", ARGV[1] .. "artifact:" .. id, ${FIELD_LIST})
    found[#found + 1] = { id, fields }
  end
end
return found`);
