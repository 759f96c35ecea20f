-- The clock of fencing tokens, one per server: KEYS[3].

-- Microseconds, as text: exact, and cheaper than formatting a number.
local function time()
  local now = redis.call('TIME')
  return now[1] .. string.sub('00000' .. now[2], -6)
end

-- Above every earlier one, also after a flush or a restart: the time stands in for what was forgotten. Exact in a
-- double until the year 2255.
local function next_fence()
  local fence = time()
  local last = tonumber(redis.call('GET', KEYS[3])) or 0
  if tonumber(fence) <= last then fence = string.format('%.0f', last + 1) end
  redis.call('SET', KEYS[3], fence)
  return fence
end
