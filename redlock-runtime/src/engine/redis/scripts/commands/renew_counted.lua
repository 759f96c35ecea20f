-- Moves the end of the lease of one holder of a counted lock, and not to an earlier time. If an older client has
-- granted the lock to this token alone, this renews it as renew.lua does. It names no other key: while a slot of a
-- Cluster moves, the server refuses a command that names a key that does not exist.
-- KEYS[1] the lock   KEYS[2] its holders   ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] ''   ARGV[4] inbox   ARGV[5] as ARGV[7] of
-- acquire_counted.lua
-- Returns 1, or 0 if this token is not inside.
-- Idempotent: a second call renews, too.
--- @include "grace"
--- @include "time"

local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if value and string.byte(value) == 37 then
  local inbox = ARGV[4]
  if string.byte(inbox, -1) == 125 then inbox = string.gsub(inbox, '{%d+}$', '') end
  local member = ARGV[1] .. '|' .. string.sub(ARGV[5], 2) .. '|' .. inbox
  local score = redis.call('ZSCORE', KEYS[2], member)
  if not score then return 0 end
  local now_ms = string.sub(time(), 1, -4)
  local ends = math.max(now_ms + ARGV[2] + 1, math.floor(score))
  local text, lasts = string.format('%.0f', ends), ends - now_ms
  -- A full server refuses ZADD, unless a command that it allows comes first.
  if type(redis.pcall('ZADD', KEYS[2], text, member)) == 'table' then
    redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[2]))
    redis.call('ZADD', KEYS[2], text, member)
  end
  if redis.call('PTTL', KEYS[1]) < lasts + GRACE then
    local px = string.format('%.0f', lasts + GRACE + math.floor(lasts / 3))
    redis.call('PEXPIRE', KEYS[1], px)
    redis.call('PEXPIRE', KEYS[2], px)
  end
  return 1
end

--- @include "extend"
return (extend(KEYS[1], ARGV[1], ARGV[2]))
