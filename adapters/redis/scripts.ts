/**
 * What Redis runs in one step. Each script loads what it is about, changes it in its own memory, and writes at the
 * end: a condition that fails has changed nothing.
 *
 * An artifact is one hash, `PREFIXartifact:MODEL:KEY`; `MODEL:KEY` is its id. Its fields: `p` payload, `e` when it
 * expires, `c` when it was consumed, `r` replay, `t` until when a replay counts that has a key of its own
 * (`PREFIXreplay:ID`), `g` family, `u` MODEL:uid, `a` account, `l` client, `b` when it was first put, `m` names that
 * are not written as they are. An index is a sorted set of ids by when they expire, and expires with the last one.
 */
import { hash } from "node:crypto";
import { JSON_MEMBERS } from "./script-json.ts";
import { CORE } from "./script-parts.ts";

/** A script and the name under which Redis remembers it. */
export interface Script {
  readonly text: string;
  readonly sha: string;
}

/** A script of these parts, one after the other. */
export function script(...parts: readonly string[]): Script {
  const text = parts.join("\n");
  return { text, sha: hash("sha1", text) };
}

/**
 * KEYS: the mark of this batch. ARGV from 3: until when it may be written by the clock of Redis, how long the mark
 * stays, then the writes: a kind with a star has all fields of an artifact, one without only those that most have. The
 * answer: what became of it, the time of Redis, and which write failed.
 */
export const COMMIT: Script = script(
  CORE,
  `
local function answer(word, place) return { word, time[1], time[2], place or 0 } end
if call("EXISTS", KEYS[1]) == 1 then return answer("done") end
if time[1] * 1000 + math.floor(time[2] / 1000) >= tonumber(ARGV[3]) then return answer("late") end

local at = 4
local function take()
  at = at + 1
  if ARGV[at] ~= "" then return ARGV[at] end
end

local function keepReplay(one, replay, till)
  one.r, one.t, one.replay = nil, till, nil
  if till then one.replay = replay else one.r = replay end
end

-- Defined where it is needed only.
local function merge(...)
${JSON_MEMBERS}
  return merged(...)
end

local born = 0
local function put(one, all)
  local p, e, g, u, a, l, m, c, r, t = take(), take(), take(), take(), take(), take()
  if all then m, c, r, t = take(), take(), take(), take() end
  if not one.live then
    one.c, one.b = nil, nil
    keepReplay(one)
  end
  if not one.r and not one.t then keepReplay(one, r, t) end
  born = born + 1
  one.p, one.e, one.g, one.u, one.a, one.l, one.m = p, e, g, u, a, l, m
  one.c = one.c or c
  one.b = one.b or string.format("%s%06d%06d", time[1], time[2], born)
  one.live, one.written = tonumber(e) > now, true
  return true
end

local steps = {
  put = put,
  update = function(one, all) return one.live and put(one, all) end,
  merge = function(one, all)
    if not one.live then return false end
    local before = one.p or call("HGET", prefix .. "artifact:" .. one.id, "p")
    local member, read = take(), take()
    put(one, all)
    if before ~= read then one.p = merge(before, one.p, member) end
    return true
  end,
  consume = function(one)
    local c, r, t = take(), take(), take()
    if not one.live or one.c then return false end
    one.c = c
    keepReplay(one, r, t)
    return true
  end,
  remove = function(one)
    local must = take()
    if must and not one.live then return false end
    one.live = false
    return true
  end,
  require = function(one) return one.live end,
}

local function revoke(family)
  for _, id in ipairs(call("ZRANGE", prefix .. "by-grant:" .. family, 0, -1)) do load(id) end
  local grant = load("Grant:" .. family)
  for _, one in ipairs(order) do
    if one.g == family or one == grant then one.live = false end
  end
end

local place = 0
while at < #ARGV do
  place = place + 1
  local kind = take()
  if kind == "revoke" then
    revoke(take())
  else
    local all = string.sub(kind, -1) == "*"
    local one = load(take())
    if not steps[all and string.sub(kind, 1, -2) or kind](one, all) then return answer("failed", place) end
  end
end
storeAll()
call("SET", KEYS[1], "1", "PX", ARGV[4])
return answer("done")`,
);

/**
 * ARGV from 3: a field and its value, how many clients are meant (-1: all) and which, then ids: those that match
 * are removed, and those that the index should not have leave it. The answer: how many were removed.
 */
export const REMOVE: Script = script(
  CORE,
  `
local field, value, clients = ARGV[3], ARGV[4], tonumber(ARGV[5])
local wanted, count = {}, 0
for i = 6, 5 + clients do wanted[ARGV[i]] = true end
for i = 6 + math.max(0, clients), #ARGV do
  local one = load(ARGV[i])
  if not one.there or one[field] ~= value then
    drop(prefix .. INDEXES[field] .. value, one.id)
  elseif clients < 0 or wanted[one.l or ""] then
    one.live = false
    count = count + 1
  end
end
storeAll()
return count`,
);

/**
 * Takes points of a limit or gives them back. A number above the limit is answered but not kept: it was refused.
 * KEYS: the window, which is kept as the points taken and when it ends. ARGV: points, seconds of a window, the limit,
 * what the library says beside, the time of the service in milliseconds. The answer: points taken, milliseconds left.
 */
export const COUNT: Script = script(`
local now = tonumber(ARGV[5])
local taken, till = string.match(redis.call("GET", KEYS[1]) or "", "^(%d+) (.+)$")
if not till or tonumber(till) <= now then
  taken, till = 0, string.format("%.3f", now + ARGV[2] * 1000)
end
local wanted = math.max(0, taken + ARGV[1])
local left = math.ceil(tonumber(till) - now)
if wanted == 0 then
  redis.call("DEL", KEYS[1])
elseif wanted <= tonumber(ARGV[3]) then
  redis.call("SET", KEYS[1], string.format("%d %s", wanted, till), "PX", left)
end
return { wanted, left }`);
