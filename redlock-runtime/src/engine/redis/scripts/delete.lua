-- Deletes a lock that this token holds and that has no waiters: its value has no mark.
-- KEYS[1] the lock   ARGV[1] token
-- Returns 1, or 0 when the value is another one.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
