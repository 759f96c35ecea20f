-- One of several that have a counted lock lets its lease end at this time. One that has the lock alone, as an older version of a client
-- has granted it, does, too, as in renew.lua.
-- KEYS as in acquire_counted.lua   ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] 'exactly'   ARGV[4] inbox
-- ARGV[7] as in acquire_counted.lua
-- Returns 1, or 0 when it is not inside, or 2 when the caller has to call again.
-- Idempotent: a second call lets it end at its own time.
local lock, queue, _, claim, holders = unpack(KEYS)
local token, ttl, _, inbox, _, _, kind = unpack(ARGV)
--- @include "grace"
--- @include "time"
--- @include "value_of"
--- @include "without_tag"
--- @include "first_two" (queue)
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "counted" (holders)
--- @include "read_holders" (lock, queue, holders, inbox)
--- @include "extend_counted" (lock, holders)
--- @include "notify_each" (lock, queue, holders, inbox)

local mine = token .. '|' .. string.sub(kind, 2) .. '|' .. without_tag(inbox)

-- The key need not last for much longer than the last of those inside: one lets its lease end sooner than it was to.
local function shorten()
  local last = redis.call('ZRANGE', holders, '-1', '-1', 'WITHSCORES')[2]
  local lasts = math.max(math.ceil(last - now_ms()), 0) + GRACE
  if redis.call('PTTL', lock) <= lasts + math.floor(lasts / 3) then return end
  local px = string.format('%.0f', lasts)
  redis.call('PEXPIRE', lock, px)
  redis.call('PEXPIRE', holders, px)
end

if not read_holders(value_of(lock)) then return 2 end
if limit then
  if not redis.call('ZSCORE', holders, mine) then return 0 end
  local lasts = ttl + 1
  -- And half a ms: its process, which lets it end, is not stuck.
  local px = extend_counted(lasts + 1, false, redis.call('PTTL', lock))
  -- First what a full server allows.
  redis.call('PEXPIRE', holders, px or redis.call('PTTL', holders))
  redis.call('ZADD', holders, string.format('%.1f', now_ms() + lasts + 0.5), mine)
  shorten()
  notify_each(first_two())
  return 1
end

--- @include "extend"
--- @include "notified_waiters" (queue)
local answer, lasts = extend(lock, token, ttl, true)
if lasts then
  -- As in renew.lua.
  redis.call('DEL', claim)
  notify_waiters(notified_waiters(), lasts, time(), '')
end
return answer
