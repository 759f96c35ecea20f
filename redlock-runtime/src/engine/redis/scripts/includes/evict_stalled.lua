-- A lease that ends without a release: the process that had it is stuck.
--- @with lock, queue, claim, inbox
--- @include "notify"
--- @include "without_tag"
--- @include "evict" (queue)

-- The process that got the lock last has let its lease end: it is stuck, and each of its waiters would get a claim. So all
-- leave the queue. A process that was only slow is told that they have lost their places. Whoever asks is not stuck.
-- Returns false when there may be more of them: then the caller has to call again.
local function evict_stalled()
  local stuck = redis.call('GET', claim)
  -- A waiter that was asked, as hinted.lua says, has no lease.
  if not stuck or string.find(stuck, '|', 1, true) then return true end
  if stuck ~= inbox then
    if not evict({[without_tag(stuck)] = true}) then return false end
    notify(stuck, 'gone||0|0||' .. lock)
  end
  redis.call('DEL', claim)
  return true
end
