/** What scripts are put together from; see `scripts.ts`. */

/**
 * Artifacts are loaded, changed, and stored at the end. ARGV: prefix, the time of the service in milliseconds. What
 * changes in the indexes is gathered, for all that a script does: a call from a script takes longer than what Redis
 * does in it.
 */
export const CORE = `
local call = redis.call
local prefix, now = ARGV[1], tonumber(ARGV[2])
local time = call("TIME")
local INDEXES = { g = "by-grant:", u = "by-uid:", a = "by-account:", l = "by-client:" }
-- Less than unpack can do, and even: a score and its member stay together.
local AT_ONCE = 1000
local seen, order = {}, {}
local young, changes = {}, {}

local function load(id)
  local one = seen[id]
  if one then return one end
  local held = call("HMGET", prefix .. "artifact:" .. id, "e", "c", "r", "t", "g", "u", "a", "l", "b", "m", "n")
  one = { id = id }
  if held[1] then
    local was = { c = held[2] or nil, r = held[3] or nil, t = held[4] or nil, g = held[5] or nil,
      u = held[6] or nil, a = held[7] or nil, l = held[8] or nil, m = held[10] or nil, n = held[11] or nil }
    one.there, one.e, one.b = was, held[1], held[9] or nil
    for field, value in pairs(was) do one[field] = value end
    one.live = tonumber(one.e) > now
  end
  seen[id] = one
  order[#order + 1] = one
  return one
end

local function span(till)
  return math.max(1, math.ceil(tonumber(till) - now))
end

-- What an artifact is to be in an index: until when, or false. The last word counts.
local function change(name, id, till)
  local list = changes[name]
  if not list then
    list = {}
    changes[name] = list
  end
  list[id] = till
end

local function place(one, was)
  for field, kind in pairs(INDEXES) do
    local before, after = was and was[field], one.live and one[field]
    if before and before ~= after then change(prefix .. kind .. before, one.id, false) end
    if after and one.written then change(prefix .. kind .. after, one.id, one.e) end
  end
  -- Nothing in the index of a session, or of a family that is new, has expired before it.
  if one.u then young[prefix .. INDEXES.u .. one.u] = true end
  if not was and one.g and one.id == "Grant:" .. one.g then young[prefix .. INDEXES.g .. one.g] = true end
end

local function hasLost(one, was)
  for field in pairs(was) do
    if not one[field] then return true end
  end
  return false
end

-- Returns what changes of the hash.
local function fieldsOf(one, was)
  local values = one.written and { "p", one.p, "e", one.e, "b", one.b } or {}
  for _, field in ipairs(one.written and { "g", "u", "a", "l", "m", "c", "r", "t", "n" } or { "c", "r", "t", "n" }) do
    local value = one[field]
    if value and (one.written or value ~= was[field]) then
      values[#values + 1] = field
      values[#values + 1] = value
    end
  end
  return values
end

local function store(one)
  local was, key = one.there, prefix .. "artifact:" .. one.id
  if not was and not one.live then return end
  if was and was.t and not (one.live and one.t == was.t) then call("DEL", prefix .. "replay:" .. one.id) end
  if not one.live or (one.written and was and hasLost(one, was)) then call("DEL", key) end
  if one.live then
    local values = fieldsOf(one, was)
    if #values > 0 then call("HSET", key, unpack(values)) end
    if one.written then call("PEXPIRE", key, span(one.e)) end
    if one.replay and tonumber(one.t) > now then
      call("SET", prefix .. "replay:" .. one.id, one.replay, "PX", span(one.t))
    end
  end
  -- Last: a Redis that is full has refused it by now.
  if one.written or not one.live then place(one, was) end
end

local function send(command, name, values)
  for from = 1, #values, AT_ONCE do
    call(command, name, unpack(values, from, math.min(from + AT_ONCE - 1, #values)))
  end
end

local function storeAll()
  for _, one in ipairs(order) do store(one) end
  seen, order = {}, {}
end

local function storeIndexes()
  for name, list in pairs(changes) do
    local gone, added = {}, {}
    for id, till in pairs(list) do
      if till then
        local count = #added
        added[count + 1], added[count + 2] = till, id
      else
        gone[#gone + 1] = id
      end
    end
    send("ZREM", name, gone)
    send("ZADD", name, added)
    if not young[name] then call("ZREMRANGEBYSCORE", name, "-inf", ARGV[2]) end
    local last = call("ZRANGE", name, -1, -1, "WITHSCORES")[2]
    if last then call("PEXPIRE", name, span(last)) end
  end
  changes = {}
end`;
