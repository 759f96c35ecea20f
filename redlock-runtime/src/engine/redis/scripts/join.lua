-- The short way of acquire, for the first request of an attempt and a lock of another token: the caller joins the queue.
-- Behind take.lua and caller.lua.
-- ARGV[3], ARGV[5] as in acquire.lua

-- Behind these waiters, also when the clock went back. A queue that may not get its expiry would stay for ever: without
-- this waiter, it has that of the others, or is gone.
local function add(waiters)
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

if ARGV[3] == 'join' and value then
  local holder, grace, granted = parse(value)
  local pttl = redis.call('PTTL', lock)
  local left = without_grace(pttl, grace)
  -- In its grace, the lease of a marked lock is over.
  if holder ~= token and (grace == 0 or left ~= 0) then
    local waiters = redis.call('ZCARD', queue)
    if waiters < tonumber(ARGV[5]) and (grace > 0 or waiters == 0 and holder or not holder and string.byte(value) ~= COUNTED) then
      add(waiters)
      if grace == 0 then
        set_mark(value, pttl, holder, grace)
      end
      return {0, holder or string.sub(value, 1, SHOWN), left, time(), waiters, string.sub(granted, 2)}
    end
  end
end

