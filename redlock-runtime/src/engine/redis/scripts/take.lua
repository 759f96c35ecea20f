-- The short way of acquire, for a free key and the first request of an attempt, or one without a queue.
-- Behind fence.lua.

-- An unfenced caller comes here only when others wanted the lock, too: it looks before it tries.
-- Bounded, as in mark.lua.
local function look()
  local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
  if type(value) == 'table' then return redis.call('GET', KEYS[1]) end
  return (value ~= '' or redis.call('EXISTS', KEYS[1]) == 1) and value
end

local value = ARGV[7] == 'unfenced' and look()
local is_late = ARGV[3] == 'late'
if not value and (ARGV[3] == '0' or ARGV[3] == 'join' or is_late)
  and redis.call('SET', KEYS[1], ARGV[1] .. (is_late and granted_now() or ''), 'NX', 'PX', ARGV[2]) then
  if ARGV[7] == 'unfenced' then return 0 end
  local counted, fence = pcall(next_fence)
  if counted then return fence end
  redis.call('DEL', KEYS[1])
  -- Runs into the same error again.
  next_fence()
end
value = value or look()

