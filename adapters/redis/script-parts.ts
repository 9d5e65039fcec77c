/** What scripts are put together from; see `scripts.ts`. */

/** Artifacts are loaded, changed, and stored at the end. ARGV: prefix, the time of the service in milliseconds. */
export const CORE = `
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
export const JSON_MEMBERS = `
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
