-- Renews a lock as renew.lua does. While a body runs, its record lasts as long as its lock, and then for `once`.
-- KEYS[1] the lock   KEYS[2] the record; or, with 'exactly', KEYS as in acquire.lua and KEYS[7] the record
-- ARGV[1] to ARGV[3] as in renew.lua   ARGV[4] how long the record outlives the lock in ms   ARGV[5] the runner
-- Returns what renew.lua returns.
-- Idempotent: a second call renews, too.
--- @include "grace"
--- @include "value_of"
--- @include "parse"
if parse(value_of(KEYS[1])) == ARGV[1] then
  local key = KEYS[7] or KEYS[2]
  local begins = redis.pcall('GETRANGE', key, '0', '127')
  if type(begins) == 'table' then begins = redis.pcall('GET', key) end
  -- This prolongs no record of a body that is done, or of another runner.
  if type(begins) == 'string' and string.match(begins, '^[^|]*|s|%d+|(%x+)|') == ARGV[5] then
    local lasts = ARGV[4] + math.max(ARGV[2], redis.call('PTTL', KEYS[1])) + GRACE
    if redis.call('PTTL', key) < lasts then redis.call('PEXPIRE', key, string.format('%.0f', lasts)) end
  end
end

--- @function "renew"
return renew(KEYS, {ARGV[1], ARGV[2], ARGV[3], ''})
