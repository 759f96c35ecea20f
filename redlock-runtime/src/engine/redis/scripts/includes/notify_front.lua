-- Notifies the waiters that are in front now, after others have left. Returns false if the caller has to call again.
--- @with lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number
--- @include "time"
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "notified_waiters" (queue)
--- @include "counted" (holders, permits)
--- @include "admit_waiters" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
local function notify_front(holder, left)
  if inside > 0 then return admit_waiters() ~= false end
  -- A foreign client releases without a push, so 0: see release.lua.
  notify_waiters(notified_waiters(), holder and math.max(left, 0) or 0, time(), '')
  return true
end
