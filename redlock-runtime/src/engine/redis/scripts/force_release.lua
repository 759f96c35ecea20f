-- Takes a lock away from its holder: the longest waiter gets it, or it is free. Behind state.lua and counted.lua.
-- Returns what inspect.lua would have returned before, or {3} when the caller has to call again.
local before = state(holders)
if redis.call('EXISTS', lock) == 1 then
  if before[6] then redis.call('DEL', holders) end
  -- It is in its grace.
  if not before[1] and not drop_stuck() then return {3} end
  local next_holder = grant()
  if next_holder == false then return {3} end
  if not next_holder then
    -- As in release.lua.
    redis.call('DEL', lock)
    redis.pcall('DEL', claim)
  end
end
return before
