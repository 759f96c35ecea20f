-- Does what finish.lua does, for a server whose access rules forbid the commands of a queue.
-- KEYS, ARGV as in finish.lua
-- Returns 1, or 0 when the token does not hold the lock.
-- Idempotent by token, as finish.lua.
local lock, token, record = KEYS[1], ARGV[1], KEYS[7]
-- Returns the value of a lock, or its first bytes as in shown.lua, or false if the lock does not exist. Access rules
-- may forbid GETRANGE; any error of GET is raised.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '512')
  if type(value) == 'table' then return redis.call('GET', key) end
  return (value ~= '' or redis.call('EXISTS', key) == 1) and value
end
-- Stores what a body that runs once leaves: its result, or that it has none.
-- Nothing is stored when the token does not hold the lock. Idempotent: a result that is stored is not stored again.
-- how: 'done': `result` is stored; 'undone': the body has not run, or has failed, and may run again; 'interrupted': it has begun
-- value: the value of the lock   fingerprint: the fingerprint of the request, or '-'   lasts: how long the record lasts
-- in ms
-- Returns what the script returns, if the lock is not to be released; or nil, whether the token holds it, and whether the body is done.
--- @with token, record
-- Splits the value of a lock. It is the token of its holder; then `=` and the time of the grant in seconds, if the
-- holder had to wait; and an exclamation mark once others have waited for it. So the holder's release looks for waiters
-- only if there are some.
-- The key of a marked lock, and of a counted lock, outlives its lease by this time, in ms: until the head of the queue
-- has asked, no other client finds it free.
local GRACE = 100
-- No token is longer. The value of a foreign client may be of any length, and the server takes 10 ms for each megabyte
-- that a script reads. So a script reads one byte more, which shows that the value is longer, and returns this many.
local SHOWN = 512

local TOKEN = '^([%w_-]+@[%w._-]+:%d+[%w/_:.-]*)(=?%d*)(!?)$'

-- Returns the token in the value of a lock, the grace of its key, which is 0 without a mark, and the time of its grant
-- with the `=`, or ''. Returns nil, 0, '' for the value of a foreign client, which is never marked.
local function parse(value)
  if not value or string.byte(value, 23) ~= 64 or #value > SHOWN then return nil, 0, '' end
  local holder, granted, mark = string.match(value, TOKEN)
  return holder, mark == '!' and GRACE or 0, granted or ''
end
-- Reads and writes the record of a body that runs once, beside its lock.
-- record: the key of the record: the fingerprint of the request, or `-`; `s` for a body that has started or `d` for one
-- that is done; since when, in ms since 1970; its runner, a hash of the token of the lock; its owner, which is the
-- token without its secret; the result of a body that is done; for a body that runs again because its result could not
-- be decoded, until when the record of that result lasts, in ms since 1970, and that record: so the result is not lost
-- if the body fails. `|` separates them.
--- @with record

local RECORD = '^([^|]*)|([sd])|(%d+)|(%x+)|([^|]*)|()'

local function ms_of_server()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- Returns the record as a table, false if there is none, or nil if the value is not a record.
local function recorded()
  local value = redis.call('GET', record)
  if not value then return false end
  local fingerprint, state, since, runner, owner, begins = string.match(value, RECORD)
  if not begins then return nil end
  local found = {value = value, fingerprint = fingerprint, since = since, runner = runner, owner = owner}
  if state == 'd' then
    found.result = string.sub(value, begins)
    return found
  end
  local ends, before = string.match(value, '^(%d+)|()', begins)
  local left = ends and ends - ms_of_server() or 0
  if left > 0 then
    found.before = string.sub(value, before)
    found.ends, found.left = ends, left
    found.result_before = string.sub(found.before, select(6, string.match(found.before, RECORD)) or 1)
  end
  return found
end

local function set_record(fingerprint, state, runner, token, result, lasts)
  local since = string.format('%.0f', ms_of_server())
  local value = table.concat({fingerprint, state, since, runner, string.sub(token, 24), result}, '|')
  redis.call('SET', record, value, 'PX', lasts)
end

local NO_RECORD = 'ERR the key beside this lock that has the record of its body is not of this library: delete it, or choose another prefix'
local function store_result(value, fingerprint, lasts, runner, how, result)
  local found = recorded()
  if found == nil then return redis.error_reply(NO_RECORD) end
  local is_held, is_done = parse(value) == token, found and found.result
  if is_held then
    if how == 'done' then
      -- First what a full server allows. If the next command fails, the body counts as interrupted for as long.
      redis.call('PEXPIRE', record, lasts)
      set_record(fingerprint, 'd', runner, token, result, lasts)
      is_done = true
    elseif how == 'undone' and found and not is_done and found.runner == runner then
      if found.before then
        -- It has failed in the place of a result that could not be decoded, and others may decode. The record is never absent: a script
        -- that fails here has lost nothing. First what a full server allows.
        redis.call('PEXPIRE', record, string.format('%.0f', found.left))
        redis.call('SET', record, found.before, 'PX', string.format('%.0f', found.left))
      else
        redis.call('DEL', record)
      end
    end
  elseif how == 'done' and is_done and found.runner == runner then
    return 1
  end
  return nil, is_held, is_done
end
local answer, is_held = store_result(value_of(lock), ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12])
return answer or is_held and redis.call('DEL', lock) or 0
