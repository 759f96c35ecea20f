-- Redlock: releases a lock on one node of several, if this token holds it. There are no queues.
-- KEYS[1] the lock   ARGV[1] token
-- Returns 1, or 0 when this token does not hold the lock.
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then holder = redis.call('GET', KEYS[1]) end
if holder == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
