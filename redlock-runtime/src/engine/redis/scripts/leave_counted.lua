-- The short way of leave, for one of several that is inside when nobody waits.
-- KEYS, ARGV as in leave.lua

local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
-- The length of an error is 0, too: that costs no call.
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
    elseif redis.call('PTTL', KEYS[1]) > 2 * (left + 100) then
      -- A foreign client need not wait for the lease of one that has left.
      local px = string.format('%.0f', left + 100)
      redis.call('PEXPIRE', KEYS[1], px)
      redis.call('PEXPIRE', KEYS[5], px)
    end
    return 1
  end
end

