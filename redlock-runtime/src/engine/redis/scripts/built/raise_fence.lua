-- Redlock, second round: raises the clock of one node if this token still holds the lock there.
-- KEYS[1] the lock   KEYS[2] the node's clock of fencing tokens
-- ARGV[1] token   ARGV[2] the fencing token
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: it does not change a clock that is as high.
-- The time of the grant follows the token in the value of a lock whose holder had to wait: `=` and the server's time in
-- seconds. (The time in the token is when the holder asked.) Only people read it.

-- Returns the value of a lock without the time of the grant, if it is this token's.
local function without_time(value, token)
  -- Compares one letter first, because each new text costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(holder) == 'table' then holder = redis.call('GET', KEYS[1]) end
if without_time(holder, ARGV[1]) ~= ARGV[1] then return 0 end
if (tonumber(redis.call('GET', KEYS[2])) or 0) < tonumber(ARGV[2]) then redis.call('SET', KEYS[2], ARGV[2]) end
return 1
