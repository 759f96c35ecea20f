-- Moves the expiry of a lock that is this token's.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms (above zero: PEXPIRE 0 would delete)
-- ARGV[3] 'exactly': also when it would have lasted longer. Without that, a request that arrives late shortens nothing.
-- Returns 1, or 0 when the lock is not this token's.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local lasts, left = ARGV[2], redis.call('PTTL', KEYS[1])
if ARGV[3] ~= 'exactly' and left > tonumber(lasts) then lasts = left end
return redis.call('PEXPIRE', KEYS[1], lasts)
