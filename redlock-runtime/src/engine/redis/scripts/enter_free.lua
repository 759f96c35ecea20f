-- The short way of enter, for a lock that is free or in which those are that allow the same number, and for which nobody waits. Behind
-- fence.lua.
-- KEYS, ARGV as in enter.lua

-- Where one of these is refused, the answer names it, and nothing is changed.
if ARGV[8] then
  redis.call('ZADD', KEYS[5], 'XX', '0', '')
  redis.call('ZCARD', KEYS[5])
  redis.call('ZRANGE', KEYS[5], '0', '0')
  redis.call('ZREM', KEYS[5], '')
  redis.call('ZSCORE', KEYS[5], '')
end

local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if value == '' and redis.call('EXISTS', KEYS[1]) == 0 then value = false end

if (ARGV[3] == 'join' or ARGV[3] == '0') and redis.call('EXISTS', KEYS[2]) == 0 then
  local number, inbox = string.sub(ARGV[7], 2), ARGV[4]
  if string.byte(inbox, -1) == 125 then inbox = string.gsub(inbox, '{%d+}$', '') end
  local member, prefix = ARGV[1] .. '|' .. number .. '|' .. inbox, '%holders|' .. number .. '|'
  local ends = string.format('%.0f', string.sub(time(), 1, -4) + ARGV[2] + 1)
  if not value then
    local fence = string.format('%.0f', next_fence())
    local px = string.format('%.0f', ARGV[2] + 101 + math.floor((ARGV[2] + 1) / 3))
    redis.call('SET', KEYS[1], prefix .. fence, 'PX', px)
    redis.call('DEL', KEYS[5])
    -- As in counted.lua.
    local added = redis.pcall('ZADD', KEYS[5], ends, member)
    if type(added) == 'table' or type(redis.pcall('PEXPIRE', KEYS[5], px)) == 'table' then
      redis.call('DEL', KEYS[1], KEYS[5])
      redis.call('PEXPIRE', KEYS[1], px)
      redis.call('ZADD', KEYS[5], ends, member)
    end
    return tonumber(fence)
  end
  if string.sub(value, 1, #prefix) == prefix then
    -- Those whose lease is over are looked for where there is no room, and when the key has to last for longer.
    local inside = redis.call('ZCARD', KEYS[5])
    if inside > 0 and (number == '0' or inside < tonumber(number)) and redis.call('PTTL', KEYS[1]) >= ARGV[2] + 101
      and not redis.call('ZSCORE', KEYS[5], member) then
      redis.call('ZADD', KEYS[5], ends, member)
      return tonumber(string.sub(value, #prefix + 1))
    end
  end
end

