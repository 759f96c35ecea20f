-- The clock of fencing tokens, one per server: KEYS[3].
-- ARGV[6] 'time': raise it to the server's time, too.

-- Microseconds, as text: exact, and cheaper than formatting a number.
local function time()
  local now = redis.call('TIME')
  return now[1] .. string.sub('00000' .. now[2], -6)
end

-- Above every earlier one. While a server remembers, counting is enough. What a restart or a failover has forgotten is
-- below the time, because no server counts to a million in a second: so each connection begins by raising the clock to
-- the time, and a clock that is not there (a flush) starts at it. Exact in a double until the year 2255.
local function next_fence()
  local fence = redis.call('INCR', KEYS[3])
  if ARGV[6] or fence < 1e15 then
    local now = tonumber(time())
    if fence < now then
      fence = now
      redis.call('SET', KEYS[3], string.format('%.0f', fence))
    end
  end
  return fence
end

