-- Reads the state of a lock.
-- KEYS[1] the lock   KEYS[2] its queue   KEYS[3] its holders   KEYS[4] its central limit
-- Returns what state.lua returns, with the first 100 members of the queue if there are any.
-- It changes nothing.
local lock, queue, holders, permits = unpack(KEYS)
--- @include "shown"
--- @include "state" (lock, queue, holders, permits)
local found = state()
-- Without waiters the queue need not be readable.
if found[1] and found[3] > 0 then
  found[5] = redis.call('ZRANGE', queue, 0, 99)
  for i, member in ipairs(found[5]) do found[5][i] = string.sub(member, 1, SHOWN) end
end
return found
