-- Returns the waiters that may have received a push about the holder's claim: the first two and, if these are of one
-- process, the first one of another process.
--- @with queue
--- @include "read"
--- @include "first_two" (queue)
--- @include "first_behind" (queue)
local function notified_waiters()
  local waiters = first_two()
  local _, _, first = read(waiters[1])
  local _, _, second = read(waiters[2])
  if first and first == second then waiters[3] = first_behind(first) end
  return waiters
end
