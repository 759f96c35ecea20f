-- Sets the central limit of a lock, or clears it, for an operator. Waiters that have room then enter. No holder loses
-- its place.
-- KEYS as in acquire_counted.lua   ARGV[1] the central limit, or '' to clear it   ARGV[4] the inbox of the operator
-- ARGV[6] the floor of fence.lua
-- Returns {0, the central limit before, or 0 without one}, or {3} if the caller has to call again.
-- Idempotent: a second call sets the same.
local lock, queue, clock, claim, holders, permits = unpack(KEYS)
local to, inbox, floor = ARGV[1], ARGV[4], ARGV[6]
local token, leaves, mine, number = '', false, '', 1
--- @include "value_of"
--- @include "central" (permits)
--- @include "counted" (holders, permits)
--- @include "read_holders" (lock, queue, holders, permits, inbox)
--- @include "admit_next" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)

-- How often one call continues behind dead waiters. The next request of a waiter continues behind the rest.
local ROUNDS = 5

if not read_holders(value_of(lock)) then return {3} end
local before = tonumber(redis.call('GET', permits)) or 0
if to == '' then redis.call('DEL', permits) else redis.call('SET', permits, to) end
central = tonumber(to) or false
if limit then
  for _ = 1, ROUNDS do
    if admit_next(0) then break end
  end
end
return {0, before}
