-- Moves the expiry of a lock that this token holds.
-- KEYS[1] the lock   KEYS[2] its queue and KEYS[4] the claim, with 'exactly' or 'ticket'
-- ARGV[1] token   ARGV[2] ttl in ms (above zero: PEXPIRE 0 would delete)
-- ARGV[3] 'exactly': also to an earlier time. Without it, a request that arrives late does not shorten the lease.
--         'ticket': as 'exactly', and the value says that a ticket carries the lock from now on.
-- ARGV[4] inbox
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: a second call moves the expiry again, and only with 'exactly' or 'ticket' to an earlier time.
--- @include "extend"
local to_ticket = ARGV[3] == 'ticket'
local answer, lasts, grace = extend(KEYS[1], ARGV[1], ARGV[2], to_ticket or ARGV[3] == 'exactly')
if to_ticket and answer == 1 or lasts and ARGV[3] == 'exactly' then
  local lock, queue, inbox = KEYS[1], KEYS[2], ARGV[4]
  --- @include "time"
  --- @include "notify_waiters" (lock, queue, inbox)
  --- @include "notified_waiters" (queue)
  if to_ticket then
    time()
    -- The zero in front of the time tells a ticket from a grant.
    local value = ARGV[1] .. '=0' .. seconds .. (lasts and '!' or '')
    redis.call('SET', lock, value, 'PX', string.format('%d', ARGV[2] + (grace or 0)))
  end
  if lasts then
    -- The waiters would ask at the earlier end of the lease. The process lets the lease end, so it is not stuck, and
    -- its claim goes.
    redis.call('DEL', KEYS[4])
    notify_waiters(notified_waiters(), lasts, time(), '')
  end
end
return answer
