-- Does what end_tick.lua does, for a server whose access rules forbid the commands of a queue. It releases as
-- give_up.lua does.
-- KEYS[7] the record of the last tick, as in tick.lua
-- ARGV[8] what becomes of the tick   ARGV[9] the tick   ARGV[10] how long its record is kept   ARGV[11] how long ago it was asked for:
-- as in includes/end_tick.lua
-- Idempotent by token: a second call finds no lock of it.
-- Releases a lock, and says what becomes of its tick.
-- release: the function that releases it   record: the key of the record of the last tick, as in tick.lua
-- what: 'record': the tick has been run, and is over if this token still holds the lock; 'undo': no body has
--         begun, so that another caller may run a tick that this token has recorded
-- tick: in ms since 1970; empty to undo   keeps: how long after its time its record is kept, in ms
-- asked: how long ago the caller asked for the lock, in ms
-- Returns what `release` returns. The release comes first: the lock is free even if the record cannot be written, and a
-- full server allows the record then.
-- The time of the grant follows the token in the value of a lock whose holder had to wait: `=` and the server's time in
-- seconds. (The time in the token is when the holder asked.) Only people read it.

-- Returns the value of a lock without the time of the grant, if it is this token's.
local function without_time(value, token)
  -- Compares one letter first, because each new text costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
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
local function give_up(KEYS, ARGV)
-- Releases a lock if this token holds it, and does not touch its queue: for a node of a quorum, which has no queues,
-- and for a server whose access rules forbid the commands of a queue.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] and so on: the tokens that its process has passed the lock on to
-- Returns 1, or 0 when none of these tokens holds the lock.
-- Idempotent by token: a second call finds no lock of it.
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then holder = redis.call('GET', KEYS[1]) end
for _, token in ipairs(ARGV) do
  local value = without_time(holder, token)
  if value == token or value == token .. '!' then return redis.call('DEL', KEYS[1]) end
end
return 0
end
local function release_it() return give_up(KEYS, {ARGV[1]}) end
return end_tick(release_it, KEYS[1], ARGV[1], KEYS[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11])
