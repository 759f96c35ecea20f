-- Looks at a lock, without touching it.
-- KEYS[1] the lock   KEYS[2] its queue
-- Returns {the holder's value or false, its PTTL in ms, how many wait}.
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2])}
