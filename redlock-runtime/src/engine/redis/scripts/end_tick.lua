
-- Releases a lock, and says what becomes of its tick. Behind a function `release`, which is release.lua or give_up.lua and the
-- parts before it, with the same KEYS, and behind granted.lua.
-- KEYS[6] the record of the last tick, as in tick.lua
-- ARGV[1] token   ARGV[8] 'record': the tick has been run, and is over if this token still holds the lock; 'undo': no body has
--         begun, so that another caller may run a tick that this token has recorded
-- ARGV[9] the tick, in ms since 1970; empty to undo   ARGV[10] how long after its time its record is kept, in ms
-- ARGV[11] so long ago the caller asked for the lock, in ms
-- Returns what `release` returns.
-- The release comes first: the lock is free whatever becomes of the record, and a full server allows the record then.
local is_held = false
if ARGV[8] == 'record' then
  local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then value = redis.call('GET', KEYS[1]) end
  value = without_time(value, ARGV[1])
  is_held = value == ARGV[1] or value == ARGV[1] .. '!'
end
local answer = release(KEYS, ARGV)
if ARGV[8] == 'undo' then
  local last, its_token = string.match(redis.call('GET', KEYS[6]) or '', '^(%d+)|([^|]*)')
  if its_token == ARGV[1] then
    local px = string.format('%.0f', math.max(redis.call('PTTL', KEYS[6]), 1))
    -- Changes nothing. A full server allows the rest of the script then, also where nothing was released.
    redis.call('PEXPIRE', KEYS[6], px)
    redis.call('SET', KEYS[6], last .. '|', 'PX', px)
  end
elseif is_held then
  local seconds_and_micros = redis.call('TIME')
  local now = seconds_and_micros[1] * 1000 + math.floor(seconds_and_micros[2] / 1000)
  local left = ARGV[9] + ARGV[10] - now
  local record = string.format('%s|%s|%.0f|', ARGV[9], ARGV[1], now - ARGV[11])
  if left > 0 then redis.call('SET', KEYS[6], record, 'PX', string.format('%.0f', left)) end
end
return answer
