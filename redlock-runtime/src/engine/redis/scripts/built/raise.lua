-- Draws a fencing token, and raises the clock of fencing tokens if it is below the floor. A client calls it when a
-- connection begins, and for a lock that it takes by plain commands.
-- KEYS[1] the clock   ARGV[1] the floor of fence.lua
-- Returns the fencing token that it draws.
-- A second call draws a higher one.
local clock, floor = KEYS[1], ARGV[1]
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
return next_fence(clock, floor)
