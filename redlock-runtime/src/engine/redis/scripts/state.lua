-- The state of a lock. Behind mark.lua.
-- KEYS[1] the lock   KEYS[2] its queue
-- Returns {the holder's token or the start of a foreign client's value, or false, what is left of its
-- lease in ms, number of waiters, the time of its grant in seconds, or ''}.
local function state()
  local value = value_of(KEYS[1])
  local holder, grace, granted = parse(value)
  local left = without_grace(redis.call('PTTL', KEYS[1]), grace)
  if grace > 0 and left == 0 then value, holder = false, nil end
  return {holder or value and string.sub(value, 1, SHOWN), left, redis.call('ZCARD', KEYS[2]), string.sub(granted, 2)}
end

