-- The clock of the server.

-- Microseconds, as text: exact, and cheaper than formatting a number.
local function time()
  local now = redis.call('TIME')
  return now[1] .. string.sub('00000' .. now[2], -6)
end

