/**
 * What Redis runs in one step. Each script loads what it is about, changes it in its own memory, and writes at the
 * end: a condition that fails has changed nothing.
 *
 * An artifact is one hash, `PREFIXartifact:MODEL:KEY`; `MODEL:KEY` is its id. Its fields: `p` payload, `e` when it
 * expires, `c` when it was consumed, `r` replay, `t` until when a replay counts that has a key of its own
 * (`PREFIXreplay:ID`), `n` when the request that consumed it was answered, by the clock of Redis, `g` family, `u` MODEL:uid, `a` account, `l` client, `b` when it was first put, `m` names that
 * are not written as they are. An index is a sorted set of ids by when they expire, and expires with the last one.
 */
import { type Script, script } from "./script.ts";
import { CORE } from "./script-parts.ts";

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
    change(prefix .. INDEXES[field] .. value, one.id, false)
  elseif clients < 0 or wanted[one.l or ""] then
    one.live = false
    count = count + 1
  end
end
storeAll()
storeIndexes()
return count`,
);
