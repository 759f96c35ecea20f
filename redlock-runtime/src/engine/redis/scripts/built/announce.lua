-- Writes who leads, and since when, beside a lock that this token holds.
-- KEYS[1] the lock   KEYS[2] the record of its leader
-- ARGV[1] token   ARGV[2] how long the record lasts in ms; '0' deletes it
-- ARGV[3] for how many ms it has led   ARGV[4] the term, its fencing token   ARGV[5] what it announces
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: a second call writes the same.
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
if parse(value_of(KEYS[1])) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[2])
  return 1
end
-- A leader writes its record again and again. The time since when it leads stays the same.
local term, since, its_token = record_at(KEYS[2])
if term ~= ARGV[4] or its_token ~= ARGV[1] then
  local now = redis.call('TIME')
  since = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[3])
end
redis.call('SET', KEYS[2], ARGV[4] .. '|' .. since .. '|' .. ARGV[1] .. '|' .. ARGV[5], 'PX', ARGV[2])
return 1
