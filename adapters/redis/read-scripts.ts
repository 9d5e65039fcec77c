/** What Redis runs to read more than one artifact in one step. */
import { type Script, script } from "./scripts.ts";

/** What a reader gets of each artifact, in this order. */
export const READ_FIELDS = ["p", "e", "c", "r", "t", "g", "u", "a", "l", "m", "b"] as const;

const FIELD_LIST = READ_FIELDS.map((name) => `"${name}"`).join(", ");

/** ARGV: prefix, id. The answer: the fields of the artifact, and of the grant of its family where it has one. */
export const WITH_GRANT: Script = script(`
local one = redis.call("HMGET", ARGV[1] .. "artifact:" .. ARGV[2], ${FIELD_LIST})
local family = one[${READ_FIELDS.indexOf("g") + 1}]
if not family then return { one } end
return { one, redis.call("HMGET", ARGV[1] .. "artifact:Grant:" .. family, ${FIELD_LIST}), family }`);

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
