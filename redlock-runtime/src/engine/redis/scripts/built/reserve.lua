-- Reserves fencing tokens for the waiters of the holder's process, which get the lock without another request.
-- KEYS[1] the lock   KEYS[2] the clock of fencing tokens
-- ARGV[1] token   ARGV[2] how many
-- Returns the last of them; 0 if this token does not hold the lock, or if the clock would get ahead of the server's
-- time, because a server that has lost its data begins again at its time.
-- A second call reserves as many more.
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
if parse(value_of(KEYS[1])) ~= ARGV[1] then return 0 end
local now = redis.call('TIME')
local last = (tonumber(redis.call('GET', KEYS[2])) or 0) + tonumber(ARGV[2])
if last > now[1] * 1000000 + now[2] then return 0 end
redis.call('SET', KEYS[2], string.format('%.0f', last))
return last
