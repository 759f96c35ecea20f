-- Redlock, second round: raises the clock of one node if this token still holds the lock there.
-- KEYS[1] the lock   KEYS[2] the node's clock of fencing tokens
-- ARGV[1] token   ARGV[2] the fencing token
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: a clock that is as high stays.
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
if without_time(holder, ARGV[1]) ~= ARGV[1] then return 0 end
if (tonumber(redis.call('GET', KEYS[2])) or 0) < tonumber(ARGV[2]) then redis.call('SET', KEYS[2], ARGV[2]) end
return 1
