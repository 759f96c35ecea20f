-- Returns the waiters to notify.
--- @with queue
local function first_two()
  return redis.call('ZRANGE', queue, '0', '1')
end
