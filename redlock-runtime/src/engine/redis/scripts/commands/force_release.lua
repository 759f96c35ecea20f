-- Takes a lock away from its holder: the longest waiter gets it, or it is free.
-- KEYS as in acquire.lua   ARGV[6] the floor of fence.lua
-- Returns what inspect.lua would have returned before, or {3} when the caller has to call again.
-- A second call takes it from the next holder, too.
local lock, queue, clock, claim, holders = unpack(KEYS)
local token, inbox, floor, leaves, mine, number = '', '', ARGV[6], false, '', 1
--- @include "state" (lock, queue, holders)
--- @include "evict_stalled" (lock, queue, claim, inbox)
--- @include "grant_next" (lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number)

local before = state()
if redis.call('EXISTS', lock) == 1 then
  if before[6] then redis.call('DEL', holders) end
  -- It is in its grace.
  if not before[1] and not evict_stalled() then return {3} end
  local next_holder = grant_next()
  if next_holder == false then return {3} end
  if not next_holder then
    -- As in release.lua.
    redis.call('DEL', lock)
    redis.pcall('DEL', claim)
  end
end
return before
