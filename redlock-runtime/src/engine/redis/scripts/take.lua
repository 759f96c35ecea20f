-- The short way of acquire, for the first request of an attempt and a free key. Behind fence.lua.

-- An unfenced caller comes here only when others wanted the lock, too: it looks before it tries.
local value = ARGV[7] == 'unfenced' and redis.call('GET', KEYS[1])
if not value and (ARGV[3] == '0' or ARGV[3] == 'join') and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if ARGV[7] == 'unfenced' then return 0 end
  local counted, fence = pcall(next_fence)
  if counted then return fence end
  redis.call('DEL', KEYS[1])
  -- Runs into the same error again.
  next_fence()
end
value = value or redis.call('GET', KEYS[1])

