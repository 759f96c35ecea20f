-- Counts the waiters, and removes dead ones from a full queue.
-- at_most: how many may wait
--- @with lock, queue, token, leaves, at_most
--- @include "time"
--- @include "read"
--- @include "evict" (queue)
--- @include "is_there" (lock, token, leaves)

-- How many waiters of a full queue are checked. They are neighbors, so a refused caller costs little.
local LOOKED_AT_WHEN_FULL = 16

-- Returns how many wait, and whether the queue is full. A waiter of a full queue whose inbox has no subscriber is dead,
-- and leaves: otherwise, it would keep others from a lock that may be free, for as long as the queue exists.
local function count_waiters()
  local waiters, most = redis.call('ZCARD', queue), tonumber(at_most)
  if waiters < most then return waiters, false end
  local from = time() % math.max(waiters - LOOKED_AT_WHEN_FULL + 1, 1)
  local dead = {}
  for _, member in ipairs(redis.call('ZRANGE', queue, from, from + LOOKED_AT_WHEN_FULL - 1)) do
    local its_token, _, its_inbox = read(member)
    if not its_token or not is_heard(its_token, its_inbox) then dead[#dead + 1] = member end
  end
  if #dead > 0 then
    waiters = waiters - redis.call('ZREM', queue, unpack(dead))
    have_left = true
  end
  return waiters, waiters >= most
end
