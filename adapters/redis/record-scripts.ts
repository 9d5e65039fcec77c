/**
 * The scripts of the record store. Keys under the prefix:
 * - `r:KIND KEY`, a hash: value, version, born (`version` of the first write, which children refer to), end, parent
 * and its `born`, and the index entries as JSON;
 * - `x:KIND NAME AT`, a sorted set: the records of an index partition by their order;
 * - `c:BORN KIND KEY`, a set: the children of a record;
 * - `dying`, a sorted set: index entries by the expiry of their records, which Redis deletes itself;
 * - `m:ID`: a commit that has happened; `n:NAME`: a counter.
 *
 * ARGV begins with the prefix and the service's time in milliseconds.
 */
import { type Script, script } from "./connection.ts";

const CORE = `
local call, prefix, now = redis.call, ARGV[1], tonumber(ARGV[2])

-- What Redis holds, read once: also what has expired, and orphans.
local loaded = {}
local function stored(id)
  if loaded[id] == nil then
    local f = call("HMGET", prefix .. "r:" .. id, "v", "n", "b", "e", "p", "q", "i")
    loaded[id] = f[1] and
      { id = id, v = f[1], n = f[2], b = f[3], e = f[4] or nil, p = f[5] or nil, q = f[6] or nil, i = f[7] or nil }
  end
  return loaded[id] or nil
end

local function load(id)
  local one = stored(id)
  if one and one.e and tonumber(one.e) <= now then return nil end
  return one
end

-- The record, if it is live, and its parent.
local function live(id)
  local one = load(id)
  if not one then return nil end
  if not one.p then return one end
  local parent = load(one.p)
  if parent and parent.b == one.q then return one, parent end
  return nil
end

local function answer(one)
  return one and { one.id, one.v, one.n, one.e or "" } or {}
end
`;

/** The rest of ARGV: the records. Returns each record and its parent. */
export const GET: Script = script(
  CORE,
  `
local found = {}
for i = 3, #ARGV do
  local one, parent = live(ARGV[i])
  found[#found + 1] = answer(one)
  found[#found + 1] = answer(parent)
end
return found`,
);

/**
 * The rest of ARGV, for each query: index, lowest, highest, limit, "1" for descending, and the order and the record
 * after which the page begins, or nothing. Returns records and the next position for each query.
 */
export const LIST: Script = script(
  CORE,
  `
local pages = {}
for at = 3, #ARGV, 7 do
  local name, low, high, limit = prefix .. "x:" .. ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local down, order, behind = ARGV[at + 4] == "1", ARGV[at + 5], ARGV[at + 6]
  if order ~= "" then
    if down then high = order else low = order end
  end
  local records, seen, offset, last, rest = {}, 0, 0, nil, false
  repeat
    local rows = down and call("ZREVRANGEBYSCORE", name, high, low, "WITHSCORES", "LIMIT", offset, limit + 1)
      or call("ZRANGEBYSCORE", name, low, high, "WITHSCORES", "LIMIT", offset, limit + 1)
    offset = offset + #rows / 2
    for i = 1, #rows, 2 do
      local id, score = rows[i], rows[i + 1]
      local isBehind = order == "" or tonumber(score) ~= tonumber(order) or (down and id < behind) or (not down and id > behind)
      if isBehind then
        if seen == limit then rest = true break end
        seen = seen + 1
        last = score .. " " .. id
        local one = live(id)
        if one then records[#records + 1] = answer(one) end
      end
    end
  until rest or #rows < 2 * (limit + 1)
  pages[#pages + 1] = { records, rest and last or "" }
end
return pages`,
);

/**
 * The rest of ARGV: id of the commit, its deadline by Redis's clock, milliseconds for which the id is stored, the
 * changes as JSON, and the values of the records. Returns `done`, `late`, or `failed` with the records whose conditions
 * did not hold.
 */
export const COMMIT: Script = script(
  CORE,
  `
local id, deadline, remembered, change = ARGV[3], tonumber(ARGV[4]), ARGV[5], cjson.decode(ARGV[6])
if call("EXISTS", prefix .. "m:" .. id) == 1 then
  -- A write, for which a connection that has sent no other one can wait.
  call("PEXPIRE", prefix .. "m:" .. id, remembered)
  return { "done" }
end
local time = call("TIME")
if time[1] * 1000 + time[2] / 1000 >= deadline then return { "late" } end

local failed = { "failed" }
for _, one in ipairs(change.expect) do
  local found = live(one.id)
  local holds
  if one.version == "absent" then holds = not found
  else holds = found and (one.version == "present" or one.version == found.n) end
  if not holds then failed[#failed + 1] = one.id end
end
local written = {}
for _, one in ipairs(change.remove) do written[one] = "removed" end
for _, one in ipairs(change.put) do written[one.id] = "put" end
for _, one in ipairs(change.put) do
  if one.parent and written[one.parent] ~= "put" and (written[one.parent] == "removed" or not live(one.parent)) then
    failed[#failed + 1] = one.id
  end
end
if #failed > 1 then return failed end

local function span(till)
  return math.max(1, math.ceil(tonumber(till) - now))
end

local function indexes(one, what)
  if not one.i then return end
  local kind = string.match(one.id, "^[^ ]+")
  for _, entry in ipairs(cjson.decode(one.i)) do
    what(prefix .. "x:" .. kind .. " " .. entry.name .. " " .. entry.at, entry.order)
  end
end

-- Removes a record and its index entries.
local function drop(one)
  indexes(one, function(name)
    call("ZREM", name, one.id)
    call("ZREM", prefix .. "dying", name .. "\\n" .. one.id)
  end)
  if one.p then call("SREM", prefix .. "c:" .. one.q .. " " .. one.p, one.id) end
  call("DEL", prefix .. "r:" .. one.id)
  loaded[one.id] = false
end

local function erase(one)
  drop(one)
  local family = prefix .. "c:" .. one.b .. " " .. one.id
  for _, child in ipairs(call("SMEMBERS", family)) do
    local record = stored(child)
    if record and record.p == one.id and record.q == one.b then drop(record) end
  end
  call("DEL", family)
end

for _, record in ipairs(change.remove) do
  local one = stored(record)
  if one then erase(one) end
end
for at, one in ipairs(change.put) do
  local before, current, parent = stored(one.id), live(one.id), one.parent and stored(one.parent)
  -- Most changes leave alone where the record is found.
  local stays = current and current.i == one.entries and current.e == one.ends and current.p == one.parent
    and (not parent or current.q == parent.b)
  if before and not current then erase(before) elseif current and not stays then drop(current) end
  local key, born = prefix .. "r:" .. one.id, current and current.b or id
  local value = ARGV[6 + at]
  local fields = { "v", value, "n", id, "b", born }
  local function also(name, text)
    if text then fields[#fields + 1], fields[#fields + 2] = name, text end
  end
  if not stays then
    also("i", one.entries)
    also("e", one.ends)
    also("p", one.parent)
    also("q", parent and parent.b)
  end
  call("HSET", key, unpack(fields))
  loaded[one.id] =
    { id = one.id, v = value, n = id, b = born, e = one.ends, p = one.parent, q = parent and parent.b, i = one.entries }
  if not stays then
    if one.ends then call("PEXPIRE", key, span(one.ends)) end
    if parent then
      local family = prefix .. "c:" .. parent.b .. " " .. one.parent
      call("SADD", family, one.id)
      if parent.e then call("PEXPIRE", family, span(parent.e)) end
    end
    indexes(loaded[one.id], function(name, order)
      call("ZADD", name, order, one.id)
      if one.ends then call("ZADD", prefix .. "dying", one.ends, name .. "\\n" .. one.id) end
    end)
  end
end
call("SET", prefix .. "m:" .. id, "1", "PX", remembered)
return { "done" }`,
);

/** The rest of ARGV: limit. Returns how many index entries were deleted. */
export const SWEEP: Script = script(
  CORE,
  `
local gone = call("ZRANGEBYSCORE", prefix .. "dying", "-inf", now, "LIMIT", 0, tonumber(ARGV[3]))
for _, entry in ipairs(gone) do
  local name, id = string.match(entry, "^(.*)\\n(.*)$")
  if not load(id) then call("ZREM", name, id) end
  call("ZREM", prefix .. "dying", entry)
end
return #gone`,
);

/**
 * It writes, because a Redis that is a replica or can't write to its disk still answers reads. Returns Redis's time.
 */
export const PING: Script = script(`
redis.call("SET", ARGV[1] .. "ping", "1", "PX", 1000)
return redis.call("TIME")`);

/** The rest of ARGV: counter, and the lowest number to return. */
export const NEXT: Script = script(`
local key = ARGV[1] .. "n:" .. ARGV[3]
local value = redis.call("INCR", key)
local least = tonumber(ARGV[4])
if value >= least then return value end
redis.call("SET", key, ARGV[4])
return least`);
