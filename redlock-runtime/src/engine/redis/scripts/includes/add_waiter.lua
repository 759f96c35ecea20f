-- The caller, `me`, joins the queue, behind these waiters, also when the clock went back. A queue that may not get its expiry would
-- stay forever: without this waiter, it has that of the others, or is gone.
--- @with queue, me
--- @include "queue_ttl"
--- @include "time"
local function add_waiter(waiters)
  redis.call('ZADD', queue, time(), me)
  if type(redis.pcall('PEXPIRE', queue, QUEUE_TTL)) == 'table' then
    redis.call('ZREM', queue, me)
    -- Runs into the same error again.
    redis.call('PEXPIRE', queue, QUEUE_TTL)
  end
  if waiters == 0 or redis.call('ZRANK', queue, me) == waiters then return end
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', queue, string.format('%.0f', last + 1), me)
end
