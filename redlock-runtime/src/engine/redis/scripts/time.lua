-- The clock of the server.

-- Microseconds, as text: exact, and cheaper than formatting a number. One time for the whole script.
local now
local function time()
  if not now then
    local seconds_and_micros = redis.call('TIME')
    now = seconds_and_micros[1] .. string.sub('00000' .. seconds_and_micros[2], -6)
  end
  return now
end

-- Behind the token in the value of a lock that is granted now, to one that has waited for it.
local function granted_now()
  return '=' .. string.sub(time(), 1, -7)
end

