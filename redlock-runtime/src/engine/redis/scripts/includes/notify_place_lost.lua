-- Notifies the process of the caller that its place was lost. The queue was deleted (FLUSHALL, DEL, eviction), or only
-- this waiter has left it, with a grant. The other waiters of its inbox may have lost their places, too, and only one
-- of them asks.
--- @with lock, how, inbox, token
--- @include "asks" (how)
--- @include "notify"
local function notify_place_lost()
  if not has_waited or how == 'rejoin' then return end
  notify(inbox, 'gone|' .. token .. '|0|0||' .. lock)
end
