-- Gives up a lock that is this token's: to the longest waiter, or to nobody; never touches anybody else's.
-- Also gives up this token's place in the queue. Behind grant.lua.
-- Returns 1, or 0 when the lock is not this token's.
if redis.call('GET', lock) ~= token then
  redis.call('ZREM', queue, me)
  return 0
end
if not grant() then
  redis.call('DEL', lock)
end
return 1
