-- In front of a script, in a Cluster. There, an inbox is a sharded channel in a slot of the server that its client is
-- connected to, so that a push does not go to all servers; and a plain channel, for clients that may not use sharded ones.

-- A waiter that is connected to another server, because the lock has moved here, is told to ask again: then it waits here.
local function listeners(inbox, its_token, its_lock)
  local sharded, plain = redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2], redis.call('PUBSUB', 'NUMSUB', inbox)[2]
  if sharded + plain == 0 then
    redis.pcall('PUBLISH', inbox, 'free|' .. its_token .. '|0|0||' .. its_lock)
  end
  return sharded + plain
end

-- Returns an error, as redis.pcall does.
local function notify(inbox, text)
  local is_sharded = redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2] > 0
  return redis.pcall(is_sharded and 'SPUBLISH' or 'PUBLISH', inbox, text)
end

-- Raises an error, as redis.call does. The server tells the line, which names the command.
local function must_notify(inbox, text)
  if redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2] == 0 then
    redis.call('PUBLISH', inbox, text)
  else
    redis.call('SPUBLISH', inbox, text)
  end
end

local function may_notify(inbox, text)
  local is_sharded = redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2] > 0
  return redis.acl_check_cmd(is_sharded and 'SPUBLISH' or 'PUBLISH', inbox, text)
end

