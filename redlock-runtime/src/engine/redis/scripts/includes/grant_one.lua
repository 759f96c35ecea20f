-- Gives the lock to a waiter that has left the queue, and notifies it. Returns for how many ms it has the lock.
--- @with lock, queue, clock, claim, floor, inbox
--- @include "claim"
--- @include "time"
--- @include "fence"
--- @include "granted_now"
--- @include "notify"
--- @include "must_notify"
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "followers" (queue)
--- @include "set_lock" (lock, claim)
local function grant_one(next_token, next_ttl, next_inbox, kind, waiters)
  local fence = kind == '' and string.format('%.0f', next_fence(clock, floor)) or '0'
  local lasts = math.min(next_ttl, CLAIM)
  local mark, now = set_lock(next_token .. granted_now(), lasts, nil, waiters, next_inbox), time()
  local rest = kind == 'unfenced' and '|' .. next_ttl .. '|' .. next_inbox .. '|unfenced'
  local followers = rest and followers_of(rest, waiters[1], waiters[2]) or ''
  notify_waiters(waiters, lasts, now, next_inbox)
  -- Behind the hints: a server writes first to the client that it has published to last.
  local told = notify(next_inbox,
    'granted|' .. next_token .. '|' .. fence .. '|' .. now .. '|' .. mark .. followers .. '|' .. lock)
  if type(told) == 'table' then
    -- Access rules have changed, and no waiter receives pushes any more. So the lock becomes free, and the caller gets
    -- the same error.
    redis.call('DEL', lock)
    must_notify(next_inbox, '')
  end
  return lasts
end
