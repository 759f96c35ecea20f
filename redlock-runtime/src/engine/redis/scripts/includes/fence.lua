-- Draws a fencing token.
-- clock: the key of the clock of fencing tokens, one per server
-- floor: a clock below it is raised to the server's time; empty for LEAST. A floor that ends with .5 is a fencing token
--         that the caller has seen, and a half: the clock is raised above it, even above the server's time.
--- @include "least"
--- @include "time"

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
