-- Removes one holder from a counted lock, or a waiter from its queue. If an older client has granted the lock to this
-- token alone, this releases it as release.lua does.
-- KEYS as in acquire_counted.lua   ARGV as in release.lua, but ARGV[7] as in acquire_counted.lua
-- Returns 1; or 0 if this token was not inside; or 2 if the caller has to call again.
-- Idempotent by token: a second call finds this token neither inside nor in the queue.
--- @include "grace"

-- The short way, for a holder of a lock without waiters. It has the same effect as the long way below.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
-- The length of an error is 0, too. To compare it costs no call.
if #value == 0 and type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
  value = redis.call('GET', KEYS[1])
end
if value and #value > 0 and string.byte(value) == 37 and redis.call('EXISTS', KEYS[2]) == 0 then
  local inbox = ARGV[4]
  if string.byte(inbox, -1) == 125 then inbox = string.gsub(inbox, '{%d+}$', '') end
  local member = ARGV[1] .. '|' .. string.sub(ARGV[7], 2) .. '|' .. inbox
  local inside = redis.call('ZRANGE', KEYS[5], '0', '1')
  if inside[1] == member and not inside[2] then
    redis.call('DEL', KEYS[1], KEYS[4], KEYS[5])
    return 1
  end
  if redis.call('ZREM', KEYS[5], member) == 1 then
    local last = redis.call('ZRANGE', KEYS[5], '-1', '-1', 'WITHSCORES')[2]
    local now = last and redis.call('TIME')
    local left = last and math.ceil(last) - now[1] * 1000 - math.floor(now[2] / 1000) or 0
    if left <= 0 then
      redis.call('DEL', KEYS[1], KEYS[4], KEYS[5])
    elseif redis.call('PTTL', KEYS[1]) > 2 * (left + GRACE) then
      -- A foreign client need not wait for the lease of a holder that has left.
      local px = string.format('%.0f', left + GRACE)
      redis.call('PEXPIRE', KEYS[1], px)
      redis.call('PEXPIRE', KEYS[5], px)
    end
    return 1
  end
end

local lock, queue, clock, claim, holders, permits = unpack(KEYS)
local token, ttl, how, inbox, _, floor, kind = unpack(ARGV, 1, 7)
local leaves = true
--- @include "me" (token, ttl, inbox, kind)
--- @include "mine" (token, inbox, kind)
--- @include "counted" (holders, permits)
--- @include "read_holders" (lock, queue, holders, permits, inbox)
--- @include "admit_next" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
--- @include "leave_free" (lock, queue, claim, how, token, leaves)
--- @include "release" (lock, queue, clock, claim, holders, permits, token, ttl, how, inbox, floor, kind, leaves, me, mine, number)

if not read_holders(type(value) == 'string' and value) then return 2 end
if limit then
  local score, place = redis.call('ZSCORE', holders, mine), redis.call('ZRANK', queue, me)
  if redis.call('ZREM', holders, mine) == 1 then inside = inside - 1 end
  redis.call('ZREM', queue, me)
  if inside == 0 and leave_free() then return score and 1 or 0 end
  if admit_next(place, score) then return score and 1 or 0 end
  -- The next call must find this holder, too.
  if score then redis.call('ZADD', holders, score, mine) end
  return 2
end
return release(value, {unpack(ARGV, 8)})
