-- Hands a free lock to the longest waiter that is alive.
--- @with lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number
--- @include "most"
--- @include "together"
--- @include "read"
--- @include "is_there" (lock, token, leaves)
--- @include "grant_one" (lock, queue, clock, claim, floor, inbox)
--- @include "admit_waiters" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)

-- The first waiter whose inbox has a subscriber gets the lock; dead and malformed ones in front of it leave the queue.
-- Returns its token, and for how many ms it has the lock; nil if the queue is empty; false if the queue may be longer
-- than one call reads. If the token is the caller's, the lock is still free, and the second value is the waiters to
-- notify. If the first waiter is one of a counted lock, `admit_waiters` admits those that may be inside together.
-- The order of effects is safe if the server stops in the middle (out of memory, no permission): the waiter leaves the
-- queue, then the lock is set with its expiry, then the waiter receives its push.
local function grant_next()
  local looked, size = 0, 2
  while looked < MOST do
    -- The two members behind these are the waiters to notify.
    local members = redis.call('ZRANGE', queue, '0', size == 2 and '3' or size + 1)
    for i = 1, math.min(size, #members) do
      local next_token, next_ttl, next_inbox, kind = read(members[i])
      if next_token and is_there(next_token, next_inbox) then
        -- The letter n: a waiter of a counted lock.
        if string.byte(kind) == 110 then return admit_waiters() end
        local waiters = {members[i + 1], members[i + 2]}
        if #waiters > 0 then redis.call('ZPOPMIN', queue, i) else redis.call('DEL', queue, claim) end
        if next_token == token then return token, waiters end
        local lasts = grant_one(next_token, next_ttl, next_inbox, kind, waiters)
        return next_token, lasts
      end
    end
    if #members <= size then
      if #members > 0 then redis.call('DEL', queue, claim) end
      return nil
    end
    redis.call('ZREM', queue, unpack(members, 1, size))
    looked, size = looked + size, TOGETHER
  end
  return false
end
