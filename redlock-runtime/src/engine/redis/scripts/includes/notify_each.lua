-- Notifies each of these waiters when there is room for it: the times differ. The members are the first two and, if
-- these are of one process, which may be stuck, the first of another process. `score`: the end of the lease of a holder
-- that has left; a waiter that was to enter before that end receives nothing.
--- @with lock, queue, holders, permits, inbox
--- @include "time"
--- @include "read"
--- @include "number_of"
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "counted" (holders, permits)
local function notify_each(members, score)
  for _, member in ipairs(members) do
    local _, _, _, its_kind = read(member)
    if its_kind then
      local left = left_for(number_of(its_kind))
      if not score or math.ceil(score - now_ms()) >= left then notify_waiters({member}, left, time(), '') end
    end
  end
end
