/** What Redis runs to compare artifacts with their indexes, and to put the indexes right, in one step each. */
import { type Script, script } from "./script.ts";

/** ARGV: prefix, the time of the service in milliseconds, `1` to repair, then names. The answer: those with a flaw. */
const EACH = `
local call = redis.call
local prefix, now, repairs = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"
local INDEXES = { g = "by-grant:", u = "by-uid:", a = "by-account:", l = "by-client:" }
-- An index may end so many milliseconds before its last member, for the clocks of two machines.
local SLACK = 2000

local function span(till) return math.max(1, math.ceil(tonumber(till) - now)) end

-- Whether the key goes too early or never; it is to live until the time.
local function isOut(key, till)
  local left = call("PTTL", key)
  return left < 0 or left < span(till) - SLACK
end

local function keep(key, till)
  call("PEXPIRE", key, string.format("%.0f", span(till)))
end

local found = {}
for i = 4, #ARGV do
  if hasFlaw(ARGV[i]) then found[#found + 1] = ARGV[i] end
end
return found`;

const withLook = (look: string): Script => {
  const [tools = "", run = ""] = EACH.split("local found = {}");
  return script(tools, look, `local found = {}${run}`);
};

/**
 * Names are ids of artifacts. A flaw: an index has not the artifact, or with another time; or one of the keys ends too
 * early or never. Repaired from the artifact.
 */
export const ARTIFACT_FLAWS: Script = withLook(`
local function hasFlaw(id)
  local key = prefix .. "artifact:" .. id
  local held = call("HMGET", key, "e", "g", "u", "a", "l")
  if not held[1] or tonumber(held[1]) <= now then return false end
  local till, flaw = held[1], false
  if isOut(key, till) then
    flaw = true
    if repairs then keep(key, till) end
  end
  for place, field in ipairs({ "g", "u", "a", "l" }) do
    local value = held[place + 1]
    local index = value and prefix .. INDEXES[field] .. value
    local score = index and call("ZSCORE", index, id)
    if index and (not score or tonumber(score) ~= tonumber(till) or isOut(index, till)) then
      flaw = true
      if repairs then
        call("ZADD", index, till, id)
        if isOut(index, till) then keep(index, till) end
      end
    end
  end
  return flaw
end`);

/**
 * Names are indexes without the prefix. A flaw: a member that has not expired is no artifact, or one that belongs
 * elsewhere. Repaired by taking it out.
 */
export const INDEX_FLAWS: Script = withLook(`
local function hasFlaw(name)
  local kind, value = string.match(name, "^(by%-%a+:)(.*)$")
  local field
  for each, own in pairs(INDEXES) do
    if own == kind then field = each end
  end
  if not field then return false end
  local flaw = false
  for _, id in ipairs(call("ZRANGEBYSCORE", prefix .. name, "(" .. ARGV[2], "+inf")) do
    if call("HGET", prefix .. "artifact:" .. id, field) ~= value then
      flaw = true
      if repairs then call("ZREM", prefix .. name, id) end
    end
  end
  return flaw
end`);
