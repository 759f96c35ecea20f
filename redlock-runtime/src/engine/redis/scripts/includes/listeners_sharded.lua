-- Returns how many clients hear what is published to an inbox. A waiter that is connected to another server, because the lock has
-- moved here, is told to ask again: then it waits here.
local function listeners(inbox, its_token, its_lock)
  local sharded, plain = redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2], redis.call('PUBSUB', 'NUMSUB', inbox)[2]
  if sharded + plain == 0 then
    redis.pcall('PUBLISH', inbox, 'free|' .. its_token .. '|0|0||' .. its_lock)
  end
  return sharded + plain
end
