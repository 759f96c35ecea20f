-- Puts the caller, `me`, into the queue, behind these waiters, also if the clock was set back. If the server refuses
-- the expiry of the queue, the caller leaves it again: otherwise, the queue would stay forever.
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
