-- Compares the value of a lock, and returns none of it, because a client of another kind may have written one of any length: see
-- shown.lua. A client that asked for it watches this read.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] of one of several that have a counted lock: their fencing token
-- Returns for how many ms its key lasts, 1 for a key that never expires, or 0 when another token holds the lock, or -1 when it is
-- free.
-- It changes nothing.
-- The time of the grant: behind the token in the value of a lock, `=` and the server's time in seconds,
-- where its holder had to wait. The time in the token is when it asked. For people alone.

-- Returns the value of a lock without that, if it is that of this token.
local function without_time(value, token)
  -- Looks at one letter first: each text that is made costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if ARGV[2] then
  -- Without the least that they allow, which changes.
  value = string.match(value or '', '^%%holders|%d+|(%d+)$') == ARGV[2] and ARGV[1] or value
else
  value = without_time(value, ARGV[1])
end
if value == ARGV[1] or value == ARGV[1] .. '!' then return math.max(redis.call('PTTL', KEYS[1]), 1) end
return value and value ~= '' and 0 or -1
