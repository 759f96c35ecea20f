-- Releases a lock, and says what becomes of its tick.
-- release: the function that releases it   record: the key of the record of the last tick, as in tick.lua
-- what: 'record': the tick has been run, and is over if this token still holds the lock; 'undo': no body has
--         begun, so that another caller may run a tick that this token has recorded
-- tick: in ms since 1970; empty to undo   keeps: how long after its time its record is kept, in ms
-- asked: how long ago the caller asked for the lock, in ms
-- Returns what `release` returns. The release comes first: the lock is free even if the record cannot be written, and a
-- full server allows the record then.
--- @include "without_time"
local function end_tick(release, lock, token, record, what, tick, keeps, asked)
  local is_held = false
  if what == 'record' then
    local value = redis.pcall('GETRANGE', lock, '0', '512')
    if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then value = redis.call('GET', lock) end
    value = without_time(value, token)
    is_held = value == token or value == token .. '!'
  end
  local answer = release()
  if what == 'undo' then
    local last, its_token = string.match(redis.call('GET', record) or '', '^(%d+)|([^|]*)')
    if its_token == token then
      local px = string.format('%.0f', math.max(redis.call('PTTL', record), 1))
      -- This changes nothing, but a full server then allows the rest of the script, also if nothing was released.
      redis.call('PEXPIRE', record, px)
      redis.call('SET', record, last .. '|', 'PX', px)
    end
  elseif is_held then
    local seconds_and_micros = redis.call('TIME')
    local now = seconds_and_micros[1] * 1000 + math.floor(seconds_and_micros[2] / 1000)
    local left = tick + keeps - now
    local value = string.format('%s|%s|%.0f|', tick, token, now - asked)
    if left > 0 then redis.call('SET', record, value, 'PX', string.format('%.0f', left)) end
  end
  return answer
end
