-- Takes a lock away from whoever holds it: to the longest waiter, or to nobody. Behind grant.lua.
-- Returns what inspect.lua would have returned before.
local before = {redis.call('GET', lock), redis.call('PTTL', lock), redis.call('ZCARD', queue)}
if before[1] and not grant() then
  redis.call('DEL', lock)
end
return before
