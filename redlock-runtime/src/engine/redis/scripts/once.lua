-- What is known of a body that runs once: the record beside its lock.
-- KEYS[6] the record: the fingerprint of the request, or `-`; `s` for a body that has started or `d` for one that is done; since when,
-- in ms since 1970; its runner, a hash of the token of the lock; its owner, which is the token without its secret; of one that is
-- done the result. `|` stands between them.

-- Returns a table of these, or false, or nil for a value that is none.
local function recorded()
  local value = redis.call('GET', KEYS[6])
  if not value then return false end
  local fingerprint, state, since, runner, owner, begins = string.match(value, '^([^|]*)|([sd])|(%d+)|(%x+)|([^|]*)|()')
  if not begins then return nil end
  return {
    fingerprint = fingerprint, since = since, runner = runner, owner = owner,
    result = state == 'd' and string.sub(value, begins)
  }
end

local function set_record(fingerprint, state, runner, token, result, lasts)
  local now = redis.call('TIME')
  local since = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
  local value = table.concat({fingerprint, state, since, runner, string.sub(token, 24), result}, '|')
  redis.call('SET', KEYS[6], value, 'PX', lasts)
end

local NO_RECORD = 'ERR the key beside this lock that has the record of its body is not of this library: delete it, or choose another prefix'

