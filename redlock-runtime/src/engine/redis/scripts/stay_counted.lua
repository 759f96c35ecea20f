-- The short way of stay: one of several that have a counted lock moves the end of its lease, and not to an earlier time. Without
-- 'exactly'. Behind time.lua.
-- KEYS, ARGV as in stay.lua

local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if ARGV[3] == '' and value and string.byte(value) == 37 then
  local inbox = ARGV[4]
  if string.byte(inbox, -1) == 125 then inbox = string.gsub(inbox, '{%d+}$', '') end
  local member = ARGV[1] .. '|' .. string.sub(ARGV[7], 2) .. '|' .. inbox
  local score = redis.call('ZSCORE', KEYS[5], member)
  if not score then return 0 end
  local now_ms = string.sub(time(), 1, -4)
  local ends = math.max(now_ms + ARGV[2] + 1, math.floor(score))
  local text, lasts = string.format('%.0f', ends), ends - now_ms
  -- A full server refuses it, but not behind what it allows.
  if type(redis.pcall('ZADD', KEYS[5], text, member)) == 'table' then
    redis.call('PEXPIRE', KEYS[5], redis.call('PTTL', KEYS[5]))
    redis.call('ZADD', KEYS[5], text, member)
  end
  if redis.call('PTTL', KEYS[1]) < lasts + 100 then
    local px = string.format('%.0f', lasts + 100 + math.floor(lasts / 3))
    redis.call('PEXPIRE', KEYS[1], px)
    redis.call('PEXPIRE', KEYS[5], px)
  end
  return 1
end

