-- Compares the value of a lock, and does not return it, because a client of another kind may have written a value of
-- any length: see shown.lua. A client with tracking watches this read.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] for a holder of a counted lock, the fencing token of the holders
-- Returns for how many ms the key lasts (1 for a key that never expires), or 0 if another token holds the lock, or -1
-- if it is free.
-- It changes nothing.
-- The time of the grant follows the token in the value of a lock whose holder had to wait: `=` and the server's time in
-- seconds. (The time in the token is when the holder asked.) Only people read it.

-- Returns the value of a lock without the time of the grant, if it is this token's.
local function without_time(value, token)
  -- Compares one letter first, because each new text costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if ARGV[2] then
  -- Compares the phase alone, because the limit changes.
  value = string.match(value or '', '^%%holders|%d+|(%d+)$') == ARGV[2] and ARGV[1] or value
else
  value = without_time(value, ARGV[1])
end
if value == ARGV[1] or value == ARGV[1] .. '!' then return math.max(redis.call('PTTL', KEYS[1]), 1) end
return value and value ~= '' and 0 or -1
