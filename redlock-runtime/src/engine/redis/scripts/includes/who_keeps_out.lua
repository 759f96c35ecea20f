-- Returns who keeps out a caller of this limit and weight: the member of the holder whose end makes room; and, if there
-- is room, the member of the first waiter, which the caller must not pass. '' for none.
--- @with queue, holders, permits
--- @include "shown"
--- @include "counted" (holders, permits)
--- @include "has_room" (holders, permits)
local function who_keeps_out(its_number, its_weight)
  local at = makes_room(its_number, its_weight)
  local holder = redis.call('ZRANGE', holders, at, at)[1] or ''
  local waiter = has_room(its_number, its_weight) and redis.call('ZRANGE', queue, '0', '0')[1] or ''
  return {string.sub(holder, 1, SHOWN), string.sub(waiter, 1, SHOWN)}
end
