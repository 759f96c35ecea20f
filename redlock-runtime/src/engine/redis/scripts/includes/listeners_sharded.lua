-- Returns how many clients subscribe to an inbox. If the lock has moved to this server, its waiters may be connected to
-- another one. This notifies such a waiter to ask again, and then it waits here.
local function listeners(inbox, its_token, its_lock)
  local sharded, plain = redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2], redis.call('PUBSUB', 'NUMSUB', inbox)[2]
  if sharded + plain == 0 then
    redis.pcall('PUBLISH', inbox, 'free|' .. its_token .. '|0|0||' .. its_lock)
  end
  return sharded + plain
end
