-- Redlock: gives up a lock on one node of several, if it is this token's. Nobody waits in a queue there.
-- KEYS[1] the lock   ARGV[1] token
-- Returns 1, or 0 when the lock is not this token's.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
