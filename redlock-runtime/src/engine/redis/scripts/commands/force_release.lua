-- Takes a lock away from its holder. The longest waiter gets it, or it is free.
-- KEYS as in acquire.lua   ARGV[6] the floor of fence.lua
-- ARGV[1] who loses it, in hexadecimal digits: the holder's token, the start of a foreign client's value, or %holders|
-- and the phase of a counted lock; '' for any holder
-- Returns what inspect.lua would have returned before, or {3} if the caller has to call again. Another holder keeps the
-- lock.
-- Idempotent by ARGV[1]: a second call takes nothing from the next holder. With '' it does.
local lock, queue, clock, claim, holders, permits = unpack(KEYS)
local loser, floor = ARGV[1], ARGV[6]
local token, inbox, leaves, mine, number = '', '', false, '', 1
--- @include "state" (lock, queue, holders, permits)
--- @include "evict_stalled" (lock, queue, claim, inbox)
--- @include "grant_next" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)

local function digits(byte)
  return string.format('%02x', string.byte(byte))
end

local before = state()
-- The least limit may change while the same callers hold the lock.
local holder = before[1]
if before[6] and holder then holder = string.gsub(holder, '^%%holders|%d+|(%d+).*$', '%%holders|%1') end
if loser ~= '' and holder and string.gsub(holder, '.', digits) ~= loser then return before end
if redis.call('EXISTS', lock) == 1 then
  if before[6] then redis.call('DEL', holders) end
  -- The lock is in its grace.
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
