-- Moves the expiry of a lock that this token holds.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms (above zero: PEXPIRE 0 would delete)
-- ARGV[3] 'exactly': also to an earlier time. Without it, a request that arrives late does not shorten the lease.
-- Returns 1, or 0 when this token does not hold the lock.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local lasts, left = ARGV[2], redis.call('PTTL', KEYS[1])
if ARGV[3] ~= 'exactly' and left > tonumber(lasts) then lasts = left end
return redis.call('PEXPIRE', KEYS[1], lasts)
