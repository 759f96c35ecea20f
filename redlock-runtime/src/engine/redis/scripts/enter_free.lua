-- The short way of enter, for a lock that is free or in which those are that allow the same number, and for which nobody waits.
-- KEYS, ARGV as in enter.lua

-- Where one of these is refused, the answer names it, and nothing is changed.
if ARGV[8] then
  redis.call('ZADD', KEYS[5], 'XX', '0', '')
  redis.call('ZCARD', KEYS[5])
  redis.call('ZRANGE', KEYS[5], '0', '0')
  redis.call('ZREM', KEYS[5], '')
  redis.call('ZSCORE', KEYS[5], '')
end

-- One command for three keys. Without any, the lock is free; with two of them, the lock and its holders, others are inside. Nobody
-- waits then.
local exist = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[5])
local value = false
if exist > 0 then
  value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
  if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
  if value == '' and redis.call('EXISTS', KEYS[1]) == 0 then value = false end
end

if (ARGV[3] == 'join' or ARGV[3] == '0') and (exist == 0 or exist == 2 and value) then
  local number, inbox, lasts = string.sub(ARGV[7], 2), ARGV[4], ARGV[2] + 1
  if string.byte(inbox, -1) == 125 then inbox = string.gsub(inbox, '{%d+}$', '') end
  local member = ARGV[1] .. '|' .. number .. '|' .. inbox
  -- Numbers as text: the server takes longer over a number, and over %.0f. In two parts, each of which is an integer on any server.
  local at = redis.call('TIME')
  local micros = at[2] + 0
  local ends = at[1] * 1000 + (micros - micros % 1000) / 1000 + lasts
  local rest = ends % 1000000000
  ends = string.format('%d%09d', (ends - rest) / 1000000000, rest)
  -- One that must be raised is drawn once more below.
  local fence = not value and redis.call('INCR', KEYS[3])
  if fence and fence >= (ARGV[6] ~= '' and tonumber(ARGV[6]) or 1000000000000000) then
    local px = lasts + 100 + (lasts - lasts % 3) / 3
    px = string.format(px < 1000000000 and '%d' or '%.0f', px)
    rest = fence % 1000000000
    local by_all = string.format('%%holders|%s|%d%09d', number, (fence - rest) / 1000000000, rest)
    redis.call('SET', KEYS[1], by_all, 'PX', px)
    -- As in counted.lua. Without the member there is nothing that could expire.
    redis.pcall('ZADD', KEYS[5], ends, member)
    if redis.pcall('PEXPIRE', KEYS[5], px) ~= 1 then
      redis.call('DEL', KEYS[1], KEYS[5])
      redis.call('PEXPIRE', KEYS[1], px)
      redis.call('ZADD', KEYS[5], ends, member)
      -- The server allows now what it has just refused. The lock is gone.
      redis.call('DEL', KEYS[5])
      return redis.error_reply('TRYAGAIN the server has refused to count a caller')
    end
    return fence
  end
  local prefix = value and '%holders|' .. number .. '|'
  if prefix and string.sub(value, 1, #prefix) == prefix then
    -- Those whose lease is over are looked for where there is no room, and when the key has to last for longer.
    local inside = redis.call('ZCARD', KEYS[5])
    if inside > 0 and (number == '0' or inside < tonumber(number)) and redis.call('PTTL', KEYS[1]) >= lasts + 100
      and not redis.call('ZSCORE', KEYS[5], member) then
      redis.call('ZADD', KEYS[5], ends, member)
      return tonumber(string.sub(value, #prefix + 1))
    end
  end
end

