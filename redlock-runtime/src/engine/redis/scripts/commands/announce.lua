-- Writes who leads, and since when, beside a lock that this token holds.
-- KEYS[1] the lock   KEYS[2] the record of its leader
-- ARGV[1] token   ARGV[2] how long the record lasts in ms; '0' deletes it
-- ARGV[3] for how many ms it has led   ARGV[4] the term, its fencing token   ARGV[5] what it announces
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: a second call writes the same.
--- @include "value_of"
--- @include "parse"
--- @include "record_at"
if parse(value_of(KEYS[1])) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[2])
  return 1
end
-- A leader writes its record again and again. The time since when it leads stays the same.
local term, since, its_token = record_at(KEYS[2])
if term ~= ARGV[4] or its_token ~= ARGV[1] then
  local now = redis.call('TIME')
  since = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[3])
end
redis.call('SET', KEYS[2], ARGV[4] .. '|' .. since .. '|' .. ARGV[1] .. '|' .. ARGV[5], 'PX', ARGV[2])
return 1
