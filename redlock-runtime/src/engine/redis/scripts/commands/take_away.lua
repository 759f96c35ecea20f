-- Takes a lock away from its holder on one node of a quorum, which has no queues.
-- KEYS[1] the lock   ARGV[1] the holder's token, or the start of a foreign client's value, in hexadecimal digits
-- Returns 1, or 0 if the lock has another value by now: a late request takes nothing from a later holder.
-- Idempotent by token.
--- @include "shown"
--- @include "value_of"
--- @include "parse"
local function digits(byte)
  return string.format('%02x', string.byte(byte))
end

local value = value_of(KEYS[1])
local holder = parse(value) or value and string.sub(value, 1, SHOWN)
if holder and string.gsub(holder, '.', digits) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
