-- Publishes to the first two waiters, because one may be dead, how long the lease in front of them lasts: then they ask
-- again. The claimant is the inbox of the waiter that was granted the lock. Its process receives the grant, and needs
-- no hint. If both waiters are of that process, the first waiter of another process receives the push, because a stuck
-- process does not ask. A process that hands a lock to itself, with this inbox, is not stuck.
--- @with lock, queue, inbox
--- @include "read"
--- @include "notify"
--- @include "first_behind" (queue)
local function notify_waiters(members, lasts, at, claimant)
  local others, its = members, '|' .. claimant .. '|'
  if claimant ~= '' then
    others = {}
    for _, member in ipairs(members) do
      if not string.find(member .. '|', its, 1, true) then others[#others + 1] = member end
    end
    if #members == 2 and #others == 0 and claimant ~= inbox then
      others[1] = first_behind(claimant)
    end
  end
  if #others == 0 then return end
  local what = '|' .. lasts .. '|' .. at .. '||' .. lock
  for _, member in ipairs(others) do
    local next_token, _, next_inbox = read(member)
    if next_token then notify(next_inbox, 'next|' .. next_token .. what) end
  end
end
