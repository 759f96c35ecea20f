-- Removes the waiters of a process that let its lease end without a release: it is stuck.
--- @with lock, queue, claim, inbox
--- @include "notify"
--- @include "without_tag"
--- @include "evict" (queue)

-- The process that got the lock last has let its lease end. It is stuck, and each of its waiters would get a claim, so
-- all of them leave the queue. The push tells a process that was only slow that its waiters have lost their places. The
-- process of the caller is not stuck.
-- Returns false if there may be more of these waiters: then the caller has to call again.
local function evict_stalled()
  local stuck = redis.call('GET', claim)
  -- This is a hint, as in hinted.lua: its waiter has no lease.
  if not stuck or string.find(stuck, '|', 1, true) then return true end
  if stuck ~= inbox then
    if not evict({[without_tag(stuck)] = true}) then return false end
    notify(stuck, 'gone||0|0||' .. lock)
  end
  redis.call('DEL', claim)
  return true
end
