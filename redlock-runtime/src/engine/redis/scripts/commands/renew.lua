-- Moves the expiry of a lock that this token holds.
-- KEYS[1] the lock   KEYS[2] its queue and KEYS[4] the claim, with 'exactly'
-- ARGV[1] token   ARGV[2] ttl in ms (above zero: PEXPIRE 0 would delete)
-- ARGV[3] 'exactly': also to an earlier time. Without it, a request that arrives late does not shorten the lease.
-- ARGV[4] inbox
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: a second call moves it again, and only with 'exactly' to an earlier time.
--- @include "extend"
local answer, lasts = extend(KEYS[1], ARGV[1], ARGV[2], ARGV[3] == 'exactly')
-- The waiters would ask when the lease was to end before; and its process, which lets it end, is not stuck.
if lasts and ARGV[3] == 'exactly' then
  local lock, queue, inbox = KEYS[1], KEYS[2], ARGV[4]
  --- @include "time"
  --- @include "notify_waiters" (lock, queue, inbox)
  --- @include "notified_waiters" (queue)
  redis.call('DEL', KEYS[4])
  notify_waiters(notified_waiters(), lasts, time(), '')
end
return answer
