-- Reads the state of a lock.
-- KEYS[1] the lock   KEYS[2] its queue
-- Returns {the holder's value or false, its PTTL in ms, number of waiters}.
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2])}
