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
