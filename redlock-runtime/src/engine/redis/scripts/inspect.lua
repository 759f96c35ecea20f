-- Reads the state of a lock. Behind state.lua.
-- KEYS[3] its holders
-- Returns it, and the first 100 members of the queue if there are any.
local found = state(KEYS[3])
-- Without waiters the queue need not be readable.
if found[1] and found[3] > 0 then
  found[5] = redis.call('ZRANGE', KEYS[2], 0, 99)
  for i, member in ipairs(found[5]) do found[5][i] = string.sub(member, 1, SHOWN) end
end
return found
