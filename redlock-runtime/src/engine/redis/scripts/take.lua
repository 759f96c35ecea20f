-- The short way of acquire, for a free key and the first request of an attempt, or one without a queue.
-- Behind fence.lua.

if ARGV[7] ~= 'unfenced' and (ARGV[3] == '0' or ARGV[3] == 'join')
  and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local counted, fence = pcall(next_fence)
  if counted then return fence end
  redis.call('DEL', KEYS[1])
  -- Runs into the same error again.
  next_fence()
end

-- Bounded, as in mark.lua.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if value == '' and redis.call('EXISTS', KEYS[1]) == 0 then value = false end

-- An unfenced caller comes here only when others wanted the lock, too: it looks before it tries.
if not value and ARGV[7] == 'unfenced' and (ARGV[3] == '0' or ARGV[3] == 'join') then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 0
end

