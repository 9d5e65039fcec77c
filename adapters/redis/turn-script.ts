/** What Redis runs for the questions of one turn: reads, points and commits, each as if it came by itself. */
import { ANSWERED_WITHIN } from "../artifacts.ts";
import { FIELD_LIST, READ_FIELDS } from "./read-scripts.ts";
import { type Script, script } from "./script.ts";
import { JSON_MEMBERS } from "./script-json.ts";
import { CORE } from "./script-parts.ts";

/** Reads: one artifact, one with the grant of its family, and the text under a key. */
const READS = `
local function fields(id)
  local one = call("HMGET", prefix .. "artifact:" .. id, ${FIELD_LIST})
  local family = one[${READ_FIELDS.indexOf("g") + 1}]
  for i = 1, ${READ_FIELDS.length} do one[i] = one[i] or "" end
  return table.concat(one, "\\n"), family
end

function answersTo.read() return (fields(take())) end

function answersTo.family()
  local one, family = fields(take())
  if not family then return one end
  return one .. "\\n" .. family .. "\\n" .. fields("Grant:" .. family)
end

function answersTo.get() return call("GET", take()) or "" end`;

/**
 * Takes points of a limit or gives them back: the key of the window, which is kept as the points taken and when it
 * ends, points, seconds of a window, the limit. A number above the limit is answered but not kept: it was refused. The
 * answer: points taken, milliseconds left.
 */
const COUNT = `
function answersTo.count()
  local key, points, seconds, limit = take(), take(), take(), tonumber(take())
  local taken, till = string.match(call("GET", key) or "", "^(%d+) (.+)$")
  if not till or tonumber(till) <= now then
    taken, till = 0, string.format("%.3f", now + seconds * 1000)
  end
  local wanted = math.max(0, taken + points)
  local left = math.ceil(tonumber(till) - now)
  if wanted == 0 then
    call("DEL", key)
  elseif wanted <= limit then
    call("SET", key, string.format("%d %s", wanted, till), "PX", left)
  end
  return wanted .. "\\n" .. left
end`;

/** The writes of a commit: each says whether its condition holds. */
const WRITES = `
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
    one.c, one.b, one.n = nil, nil, nil
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
    one.c, one.n = c, string.format("%.3f", time[1] * 1000 + time[2] / 1000 + ${ANSWERED_WITHIN})
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
  -- Earlier commits of this turn may have added to it.
  storeIndexes()
  for _, id in ipairs(call("ZRANGE", prefix .. "by-grant:" .. family, 0, -1)) do load(id) end
  local grant = load("Grant:" .. family)
  for _, one in ipairs(order) do
    if one.g == family or one == grant then one.live = false end
  end
end`;

/**
 * A commit: the mark of the batch, until when it may be written by the clock of Redis, how long the mark stays, then
 * the writes: a kind with a star has all fields of an artifact, one without only those that most have.
 */
const COMMIT = `
local marks = {}
function answersTo.commit()
  local mark, deadline, stays = prefix .. "done:" .. take(), tonumber(take()), take()
  if marks[mark] or call("EXISTS", mark) == 1 then return "done" end
  if time[1] * 1000 + math.floor(time[2] / 1000) >= deadline then return "late" end
  seen, order = {}, {}
  local place = 0
  while at <= #text do
    place = place + 1
    local kind = take()
    if kind == "revoke" then
      revoke(take())
    else
      local all = string.sub(kind, -1) == "*"
      local one = load(take())
      if not steps[all and string.sub(kind, 1, -2) or kind](one, all) then return "failed\\n" .. place end
    end
  end
  storeAll()
  marks[mark] = stays
  return "done"
end`;

/**
 * ARGV from 3: questions, which are fields with a line feed behind each. The answer: the time of Redis, then an answer
 * for each question: behind \`=\` what it asked for, behind \`!\` the error that it met, which is no other's business.
 */
export const TURN: Script = script(
  CORE,
  `
local text, at
local function take()
  local stop = string.find(text, "\\n", at, true)
  local value = string.sub(text, at, stop - 1)
  at = stop + 1
  if value ~= "" then return value end
end

local answersTo = {}`,
  READS,
  COUNT,
  WRITES,
  COMMIT,
  `
local isReplica = false
local function explained(problem)
  local said = type(problem) == "table" and problem.err or tostring(problem)
  if string.find(said, "READONLY", 1, true) then isReplica = true end
  return "!" .. said
end

local answers, commits = { time[1], time[2] }, {}
for i = 3, #ARGV do
  text, at = ARGV[i], 1
  local kind = take()
  if kind == "commit" then commits[#commits + 1] = i end
  local isDone, answer = pcall(answersTo[kind])
  answers[i] = isDone and "=" .. answer or explained(answer)
end
local areDone, problem = pcall(function()
  storeIndexes()
  for mark, stays in pairs(marks) do call("SET", mark, "1", "PX", stays) end
end)
if not areDone then
  for _, i in ipairs(commits) do answers[i] = explained(problem) end
end
-- The driver has to hear it, in front of what is said: then it connects anew.
if isReplica then return redis.error_reply("READONLY this Redis is a replica") end
return answers`,
);
