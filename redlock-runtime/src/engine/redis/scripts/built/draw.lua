-- Draws a fencing token for a lock that this token holds, and took without one.
-- KEYS[1] the lock   KEYS[3] the clock of fencing tokens   ARGV[1] token   ARGV[6] the floor of fence.lua
-- Returns the fencing token, or 0 if this token does not hold the lock.
-- A second call draws a higher one.
local clock, floor = KEYS[3], ARGV[6]
-- Draws a fencing token.
-- clock: the key of the clock of fencing tokens, one per server
-- floor: a clock below it is raised to the server's time; empty for LEAST. A floor that ends with .5 is a fencing token
--         that the caller has seen, and a half: the clock is raised above it, even above the server's time.
-- No fencing token is less, unless the clock has lost its data. In us since 1970: a time long before this one.
local LEAST = 1000000000000000
-- Returns the time of the server in us, as text: exact, and cheaper than formatting a number. It is one time for the
-- whole script. Sets `seconds` to its seconds.
local now, seconds
local function time()
  if not now then
    local seconds_and_micros = redis.call('TIME')
    local micros = seconds_and_micros[2]
    -- Nine in ten times it has six digits. Each new text costs as much as half a command.
    if #micros < 6 then micros = string.sub('00000' .. micros, -6) end
    seconds = seconds_and_micros[1]
    now = seconds .. micros
  end
  return now
end

-- A raised clock stays this far below the server's time, in us. This leaves room for reserve.lua.
local BEHIND = 10000

-- Returns a fencing token above all earlier ones. While a server keeps its data, counting is enough, and TIME with each
-- grant would cost a quarter more. A fencing token that was lost in a restart, a failover or a flush is below the time,
-- because no server grants a million times in a second. So a clock that is missing starts at the time, and one that is
-- below the floor is raised. Exact in a double until the year 2255.
local function next_fence(clock, floor)
  local fence = redis.call('INCR', clock)
  local least = tonumber(floor) or LEAST
  if fence < least then
    local now = tonumber(time())
    if fence > LEAST then now = now - BEHIND end
    if least % 1 > 0 then now = math.max(now, least + 0.5) end
    if fence < now then
      fence = now
      -- In two parts, each of which is an integer on any server, because %.0f takes longer.
      local rest = fence % 1000000000
      redis.call('SET', clock, string.format('%d%09d', (fence - rest) / 1000000000, rest))
    end
  end
  return fence
end
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
return next_fence(clock, floor)
