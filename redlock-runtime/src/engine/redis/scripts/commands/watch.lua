-- Compares the value of a lock, and does not return it, because a client of another kind may have written a value of
-- any length: see shown.lua. A client with tracking watches this read.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] for a holder of a counted lock, the fencing token of the holders
-- Returns for how many ms the key lasts (1 for a key that never expires), or 0 if another token holds the lock, or -1
-- if it is free.
-- It changes nothing.
--- @include "without_time"
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
