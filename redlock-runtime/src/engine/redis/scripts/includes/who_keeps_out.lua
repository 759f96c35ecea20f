-- Who keeps out a caller that allows this number: the member of the one whose end makes room, and, where there is room, that of the
-- first waiter, which the caller does not pass. '' for none.
--- @with queue, holders
--- @include "shown"
--- @include "counted" (holders)
--- @include "has_room" (holders)
local function who_keeps_out(its_number)
  local at = math.max(inside - math.max(least(its_number, limit), 1), 0)
  local holder = redis.call('ZRANGE', holders, at, at)[1] or ''
  local waiter = has_room(its_number) and redis.call('ZRANGE', queue, '0', '0')[1] or ''
  return {string.sub(holder, 1, SHOWN), string.sub(waiter, 1, SHOWN)}
end
