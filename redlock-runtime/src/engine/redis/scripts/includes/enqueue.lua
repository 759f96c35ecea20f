-- Makes sure that the caller, `me`, has a place in the queue.
--- @with lock, queue, how, inbox, token, me
--- @include "queue_ttl"
--- @include "may_notify"
--- @include "must_notify"
--- @include "add_waiter" (queue, me)
--- @include "notify_place_lost" (lock, how, inbox, token)
local function enqueue()
  if not redis.call('ZSCORE', queue, me) then
    notify_place_lost()
    add_waiter(redis.call('ZCARD', queue))
  else
    redis.call('PEXPIRE', queue, QUEUE_TTL)
    -- Raises an error if access rules have changed, and this waiter would not receive its grant. From Redis 7.0 on.
    if redis.acl_check_cmd and not may_notify(inbox, '') then
      must_notify(inbox, '')
    end
  end
end
