-- Sets the lock to this value for so many ms, and marks it if there are waiters, or if it had a `grace` before. Returns
-- the mark. Writes the claim if there are waiters, because the lock itself expires soon after a lease that ends without
-- a release.
-- claim: a key that exists only while the lock has waiters: the inbox of the waiter that got the lock last
--- @with lock, claim
--- @include "grace"
--- @include "queue_ttl"
local function set_lock(next_value, lasts, grace, waiters, next_inbox)
  local mark = ''
  if #waiters > 0 or grace and grace > 0 then
    lasts, mark = lasts + GRACE, '!'
  end
  redis.call('SET', lock, next_value .. mark, 'PX', string.format('%d', lasts))
  if #waiters > 0 then redis.pcall('SET', claim, next_inbox, 'PX', QUEUE_TTL) end
  return mark
end
