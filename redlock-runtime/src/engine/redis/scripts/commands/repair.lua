-- Renews a lock on one node of a quorum, or takes it there if it is free.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms (above zero: PEXPIRE 0 would delete)   ARGV[3] as in renew.lua
-- Returns 1; 2 if the lock was free, which does not count as a renewal; 0 if another token holds it.
-- Idempotent by token: a second call renews.
--- @include "without_time"
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(holder) == 'table' then holder = redis.call('GET', KEYS[1]) end
if without_time(holder, ARGV[1]) == ARGV[1] then
  local lasts, left = ARGV[2], redis.call('PTTL', KEYS[1])
  if ARGV[3] ~= 'exactly' and left > tonumber(lasts) then lasts = left end
  return redis.call('PEXPIRE', KEYS[1], lasts)
end
if holder and (holder ~= '' or redis.call('EXISTS', KEYS[1]) == 1) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 2
