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

/** A script and the name under which Redis remembers it. */
export interface Script {
  readonly text: string;
  readonly sha: string;
}

function script(...parts: readonly string[]): Script {
  const text = parts.join("\n");
  return { text, sha: hash("sha1", text) };
}

/** ARGV: prefix, the time of the service in milliseconds. */
const CORE = `
local call = redis.call
local prefix, now = ARGV[1], tonumber(ARGV[2])
local time = call("TIME")
local FIELDS = { "e", "c", "r", "t", "g", "u", "a", "l", "b" }
local INDEXES = { g = "by-grant:", u = "by-uid:", a = "by-account:", l = "by-client:" }
local seen, order, touched = {}, {}, {}

local function load(id)
  local one = seen[id]
  if one then return one end
  local held = call("HMGET", prefix .. "artifact:" .. id, unpack(FIELDS))
  one = { id = id, there = held[1] and true, was = {} }
  for i, field in ipairs(FIELDS) do
    if held[i] then
      one[field] = held[i]
      one.was[field] = held[i]
    end
  end
  one.live = one.there and tonumber(one.e) > now
  seen[id] = one
  order[#order + 1] = one
  return one
end

local function span(till)
  return string.format("%.0f", math.max(1, math.ceil(tonumber(till) - now)))
end

local function index(command, name, ...)
  touched[name] = true
  call(command, name, ...)
end

local function store(one)
  local key, replay = prefix .. "artifact:" .. one.id, prefix .. "replay:" .. one.id
  if one.there and (one.written or not one.live) then call("DEL", key) end
  if one.was.t and not (one.live and one.t == one.was.t) then call("DEL", replay) end
  for field, kind in pairs(INDEXES) do
    local before, after = one.was[field], one.live and one[field]
    if before and before ~= after then index("ZREM", prefix .. kind .. before, one.id) end
    if after and one.written then index("ZADD", prefix .. kind .. after, one.e, one.id) end
  end
  if not one.live then return end
  local values = {}
  for _, field in ipairs(one.written and { "p", "m", unpack(FIELDS) } or { "c", "r", "t" }) do
    if one[field] and (one.written or one[field] ~= one.was[field]) then
      values[#values + 1] = field
      values[#values + 1] = one[field]
    end
  end
  if #values > 0 then call("HSET", key, unpack(values)) end
  if one.written then call("PEXPIRE", key, span(one.e)) end
  if one.replay and tonumber(one.t) > now then call("SET", replay, one.replay, "PX", span(one.t)) end
end

local function storeAll()
  for _, one in ipairs(order) do store(one) end
  for name in pairs(touched) do
    call("ZREMRANGEBYSCORE", name, "-inf", ARGV[2])
    local last = call("ZRANGE", name, -1, -1, "WITHSCORES")
    if last[2] then call("PEXPIRE", name, span(last[2])) end
  end
end`;

/**
 * Objects in the text that `JSON.stringify` writes, cut into their members without reading the values: what is
 * written again is the same to the byte.
 */
const JSON_MEMBERS = `
local function afterString(text, at)
  repeat
    at = string.find(text, '["\\\\]', at + 1)
    local quote = string.sub(text, at, at) == '"'
    if not quote then at = at + 1 end
  until quote
  return at + 1
end

local function afterValue(text, at)
  local depth = 0
  while true do
    at = string.find(text, '["{}%[%],]', at)
    local sign = string.sub(text, at, at)
    if sign == '"' then
      at = afterString(text, at)
    else
      if depth == 0 and (sign == "," or sign == "}") then return at end
      if sign == "{" or sign == "[" then depth = depth + 1 elseif sign ~= "," then depth = depth - 1 end
      at = at + 1
    end
  end
end

local function members(text)
  local found, at = {}, 2
  while string.sub(text, at, at) == '"' do
    local colon = afterString(text, at)
    local stop = afterValue(text, colon + 1)
    found[#found + 1] = { string.sub(text, at, colon - 1), string.sub(text, colon + 1, stop - 1) }
    at = stop + 1
  end
  return found
end

local function together(...)
  local all, places = {}, {}
  for _, list in ipairs({ ... }) do
    for _, member in ipairs(list) do
      if not places[member[1]] then
        places[member[1]] = #all + 1
      end
      all[places[member[1]]] = member
    end
  end
  return all
end

local function written(list)
  local texts = {}
  for i, member in ipairs(list) do texts[i] = member[1] .. ":" .. member[2] end
  return "{" .. table.concat(texts, ",") .. "}"
end

local function entriesOf(list, name)
  for _, member in ipairs(list) do
    if member[1] == name and string.sub(member[2], 1, 1) == "{" then return members(member[2]) end
  end
  return {}
end

local function merged(before, after, name)
  local own = members(after)
  local entries = together(entriesOf(members(before), name), entriesOf(own, name))
  return written(together(own, { { name, written(entries) } }))
end`;

/**
 * KEYS: the mark of this batch. ARGV from 3: until when it may be written by the clock of Redis, how long the mark
 * stays, then the writes. The answer: what became of it, the time of Redis, and which write failed.
 */
export const COMMIT: Script = script(
  CORE,
  JSON_MEMBERS,
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

local born = 0
local function put(one, merge)
  local p, e, g, u, a, l, m, c, r, t = take(), take(), take(), take(), take(), take(), take(), take(), take(), take()
  if merge then
    p = merged(one.p or call("HGET", prefix .. "artifact:" .. one.id, "p"), p, merge)
  end
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
end

local steps = {
  put = function(one) put(one) return true end,
  update = function(one) return one.live and (put(one) or true) end,
  merge = function(one) return one.live and (put(one, take()) or true) end,
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
  elseif not steps[kind](load(take())) then
    return answer("failed", place)
  end
end
storeAll()
call("SET", KEYS[1], "1", "PX", ARGV[4])
return answer("done")`,
);

/**
 * ARGV from 3: a field and its value, how many clients are meant (-1: all) and which, then ids: those that match
 * are removed. The answer: how many.
 */
export const REMOVE: Script = script(
  CORE,
  `
local field, value, clients = ARGV[3], ARGV[4], tonumber(ARGV[5])
local wanted, count = {}, 0
for i = 6, 5 + clients do wanted[ARGV[i]] = true end
for i = 6 + math.max(0, clients), #ARGV do
  local one = load(ARGV[i])
  if not one.there then
    index("ZREM", prefix .. INDEXES[field] .. value, one.id)
  elseif one[field] == value and (clients < 0 or wanted[one.l or ""]) then
    one.live = false
    count = count + 1
  end
end
storeAll()
return count`,
);

/** What a reader gets of each artifact, in this order. */
export const READ_FIELDS = ["p", "e", "c", "r", "t", "g", "u", "a", "l", "m", "b"] as const;

/** ARGV: prefix, index, models (none: all). The answer: id and fields of each. */
export const LIST: Script = script(`
local wanted, found = {}, {}
for i = 3, #ARGV do wanted[ARGV[i]] = true end
for _, id in ipairs(redis.call("ZRANGE", ARGV[1] .. ARGV[2], 0, -1)) do
  if #ARGV == 2 or wanted[string.match(id, "^[^:]*")] then
    local fields = redis.call("HMGET", ARGV[1] .. "artifact:" .. id, ${READ_FIELDS.map((name) => `"${name}"`).join(", ")})
    found[#found + 1] = { id, fields }
  end
end
return found`);

/**
 * Takes points of a limit or gives them back. A number above the limit is answered but not kept: it was refused.
 * KEYS: the window. ARGV: points, seconds of a window, the limit. The answer: points taken, milliseconds left.
 */
export const COUNT: Script = script(`
local wanted = math.max(0, tonumber(redis.call("GET", KEYS[1]) or "0") + tonumber(ARGV[1]))
local left = redis.call("PTTL", KEYS[1])
if left < 0 then left = ARGV[2] * 1000 end
if wanted == 0 then
  redis.call("DEL", KEYS[1])
elseif wanted <= tonumber(ARGV[3]) then
  redis.call("SET", KEYS[1], wanted, "PX", math.max(1, left))
end
return { wanted, left }`);
