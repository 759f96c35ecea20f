-- Redlock: renews a lock on one node of several, or takes it there if it is free.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms (above zero: PEXPIRE 0 would delete)   ARGV[3] as in renew.lua
-- Returns 1; 2 when the lock was free, which does not count as a renewal; 0 when another token holds it.
-- Idempotent by token: a second call renews.
-- The time of the grant: behind the token in the value of a lock, `=` and the server's time in seconds,
-- where its holder had to wait. The time in the token is when it asked. For people alone.

-- Returns the value of a lock without that, if it is that of this token.
local function without_time(value, token)
  -- Looks at one letter first: each text that is made costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
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
