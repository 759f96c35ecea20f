-- The first two may be told of another time each. If both are of one process, which may be stuck, another one is told, too.
-- `score`: of one that has left; if it was to end later than what they were told, nothing changes for them.
--- @with lock, queue, holders, inbox
--- @include "time"
--- @include "read"
--- @include "number_of"
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "counted" (holders)
local function notify_each(members, score)
  for _, member in ipairs(members) do
    local _, _, _, its_kind = read(member)
    if its_kind then
      local left = left_for(number_of(its_kind))
      if not score or math.ceil(score - now_ms()) >= left then notify_waiters({member}, left, time(), '') end
    end
  end
end
