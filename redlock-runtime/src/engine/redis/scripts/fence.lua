-- The clock of fencing tokens, one per server: KEYS[3].
-- ARGV[6] the floor, or nothing: a clock below it is raised to the server's time.

-- Room for reserve.lua: a clock that is raised stays so far, in us, below the server's time.
local BEHIND = 10000

-- Microseconds, as text: exact, and cheaper than formatting a number.
local function time()
  local now = redis.call('TIME')
  return now[1] .. string.sub('00000' .. now[2], -6)
end

-- Above every earlier one. While a server remembers, counting is enough, and asking for the time with each grant would
-- cost a quarter more. What a restart, a failover or other data have forgotten is below the time, because no server
-- counts to a million in a second. So a clock that is not there (a flush) starts at the time; one that is older than the
-- client knows the time to be, less some milliseconds, is raised. Exact in a double until the year 2255.
local function next_fence()
  local fence = redis.call('INCR', KEYS[3])
  if fence < (tonumber(ARGV[6]) or 1e15) then
    local now = tonumber(time())
    if fence > 1e15 then now = now - BEHIND end
    if fence < now then
      fence = now
      redis.call('SET', KEYS[3], string.format('%.0f', fence))
    end
  end
  return fence
end

