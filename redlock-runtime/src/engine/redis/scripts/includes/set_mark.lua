-- Marks the lock with this value, holder and grace, unless it is marked already, or a foreign client's.
--- @with lock
--- @include "grace"
local function set_mark(value, pttl, holder, grace)
  if not holder or grace > 0 then return end
  if pttl < 0 then return redis.call('SET', lock, value .. '!') end
  -- As text, because the server takes longer for a number than for the rest of the mark.
  redis.call('SET', lock, value .. '!', 'PX', string.format('%d', pttl + GRACE))
end
