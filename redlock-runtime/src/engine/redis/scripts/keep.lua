-- The short way of renew, for a lock without waiters: its value has no mark. Behind granted.lua.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms (above zero: PEXPIRE 0 would delete)
-- ARGV[3] 'exactly': also to an earlier time. Without it, a request that arrives late does not shorten the lease.
-- Returns 1, or 0 when this token does not hold the lock.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if without_time(value, ARGV[1]) == ARGV[1] then
  local lasts, left = ARGV[2], redis.call('PTTL', KEYS[1])
  if ARGV[3] ~= 'exactly' and left > tonumber(lasts) then lasts = left end
  return redis.call('PEXPIRE', KEYS[1], lasts)
end

