-- Removes all waiters of stuck processes from the queue.
--- @with queue
--- @include "together"
--- @include "read"
--- @include "without_tag"

-- How many members one call reads.
local LOOKED_AT = 10000

-- Whether waiters have left the queue, and those behind them may have received no push.
local have_left = false

-- `stuck` has the inboxes of the processes as its keys, without tags. Returns a table with the inboxes of the removed
-- waiters as its keys, with tags; or false if there may be more of them.
local function evict(stuck)
  local members, gone, inboxes = redis.call('ZRANGE', queue, 0, LOOKED_AT - 1), {}, {}
  for _, member in ipairs(members) do
    local _, _, inbox = read(member)
    if inbox and stuck[without_tag(inbox)] then
      gone[#gone + 1] = member
      inboxes[inbox] = true
    end
  end
  for i = 1, #gone, TOGETHER do
    redis.call('ZREM', queue, unpack(gone, i, math.min(i + TOGETHER - 1, #gone)))
  end
  have_left = have_left or #gone > 0
  return (#gone <= LOOKED_AT / 2 or #members < LOOKED_AT) and inboxes
end
