-- Lets the lease of one holder of a counted lock end at this time. If an older client has granted the lock to this
-- token alone, this renews the lock with 'exactly', as renew.lua does.
-- KEYS as in acquire_counted.lua   ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] 'exactly'   ARGV[4] inbox
-- ARGV[7] as in acquire_counted.lua
-- Returns 1, or 0 if this token is not inside, or 2 if the caller has to call again.
-- Idempotent: a second call sets the end again.
local lock, queue, _, claim, holders, permits = unpack(KEYS)
local token, ttl, _, inbox, _, _, kind = unpack(ARGV)
--- @include "grace"
--- @include "time"
--- @include "value_of"
--- @include "without_tag"
--- @include "first_two" (queue)
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "counted" (holders, permits)
--- @include "read_holders" (lock, queue, holders, permits, inbox)
--- @include "extend_counted" (lock, holders)
--- @include "notify_each" (lock, queue, holders, permits, inbox)

local mine = token .. '|' .. string.sub(kind, 2) .. '|' .. without_tag(inbox)

-- Shortens the key, which need not last much longer than the last lease: this lease ends sooner than before.
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
  -- The half ms says that the process lets the lease end, and is not stuck.
  local px = extend_counted(lasts + 1, false, redis.call('PTTL', lock))
  -- This comes first, because a full server allows it, and then the rest.
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
