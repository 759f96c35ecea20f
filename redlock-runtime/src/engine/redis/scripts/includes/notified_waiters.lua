-- Returns all that may have been told of the claim of the holder, whose process is the one of both if it is that of the first two.
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
