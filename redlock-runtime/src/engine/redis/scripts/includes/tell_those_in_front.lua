-- Others have left in front of those that are in front now. Returns false when the caller has to call again.
--- @with lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number
--- @include "time"
--- @include "tell" (lock, queue, inbox)
--- @include "all_told" (queue)
--- @include "counted" (holders)
--- @include "let_in" (lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number)
local function tell_those_in_front(holder, left)
  if inside > 0 then return let_in() ~= false end
  -- A foreign client releases without a push: as in release.lua.
  tell(all_told(), holder and math.max(left, 0) or 0, time(), '')
  return true
end
