-- Reads who leads.
-- KEYS[1] the lock   KEYS[2] the record of its leader
-- Returns {the holder's token or the start of a foreign client's value, or false, what is left of its lease in ms, 0, the
-- time of its grant in seconds, or ''}, and behind them, if the record is that of the holder, {the term, since when it leads
-- in ms since 1970, what it announces}.
-- It changes nothing.
-- No token is longer. The value of a foreign client may be of any length, and the server takes 10 ms for each megabyte
-- that a script reads. So a script reads one byte more, which shows that the value is longer, and returns this many.
local SHOWN = 512
-- Returns the value of a lock, or its first bytes as in shown.lua, or false if the lock does not exist. Access rules
-- may forbid GETRANGE; any error of GET is raised.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '512')
  if type(value) == 'table' then return redis.call('GET', key) end
  return (value ~= '' or redis.call('EXISTS', key) == 1) and value
end
-- Splits the value of a lock. It is the token of its holder; then `=` and the time of the grant in seconds, if the
-- holder had to wait; and an exclamation mark once others have waited for it. So the holder's release looks for waiters
-- only if there are some.
-- The key of a marked lock, and of a counted lock, outlives its lease by this time, in ms: until the head of the queue
-- has asked, no other client finds it free.
local GRACE = 100

local TOKEN = '^([%w_-]+@[%w._-]+:%d+[%w/_:.-]*)(=?%d*)(!?)$'

-- Returns the token in the value of a lock, the grace of its key, which is 0 without a mark, and the time of its grant
-- with the `=`, or ''. Returns nil, 0, '' for the value of a foreign client, which is never marked.
local function parse(value)
  if not value or string.byte(value, 23) ~= 64 or #value > SHOWN then return nil, 0, '' end
  local holder, granted, mark = string.match(value, TOKEN)
  return holder, mark == '!' and GRACE or 0, granted or ''
end
-- Returns the rest of the lease for a PTTL in ms. If it is negative, the key does not expire, or does not exist.
local function without_grace(pttl, grace)
  return pttl < 0 and pttl or math.max(pttl - grace, 0)
end
-- Reads the record of a leader.
-- Returns the term, since when it leads in ms since 1970, the token of its lock, and what it announces; nil without a
-- record, or if a client of another kind has written the value. No record is longer than the part that is read, as in
-- shown.lua.
local function record_at(key)
  local record = redis.pcall('GETRANGE', key, '0', '2047')
  if type(record) == 'table' then
    record = string.find(record.err, 'WRONGTYPE', 1, true) and '' or redis.call('GET', key) or ''
  end
  return string.match(record, '^(%d+)|(%d+)|([^|]+)|(.*)$')
end
local value = value_of(KEYS[1])
local holder, grace, granted = parse(value)
local left = without_grace(redis.call('PTTL', KEYS[1]), grace)
if not value or grace > 0 and left == 0 then return {false} end
local found = {holder or string.sub(value, 1, SHOWN), left, 0, string.sub(granted, 2)}
local term, since, its_token, text = record_at(KEYS[2])
if term and its_token == holder then found[5] = {term, since, text} end
return found
