-- Returns the time of the server in us, as text: exact, and cheaper than formatting a number. One time for the whole script.
local now
local function time()
  if not now then
    local seconds_and_micros = redis.call('TIME')
    now = seconds_and_micros[1] .. string.sub('00000' .. seconds_and_micros[2], -6)
  end
  return now
end
