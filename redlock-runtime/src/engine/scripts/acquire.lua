-- Takes a lock that is free, or is this token's already.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms
-- Returns {1}, or {0, the holder's value, its PTTL in ms (-1: none)}.
-- Idempotent by token: the second call of a granted token renews, so that a lost reply is answered by asking
-- again, and the lease may be counted from the latest request.
local holder = redis.call('GET', KEYS[1])
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {1}
end
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {1}
end
return {0, holder, redis.call('PTTL', KEYS[1])}
