-- Before a script, in a Cluster. There an inbox is a sharded channel in some slot of the server that its listener is
-- connected to, so that a notice does not go to every server; and a channel of the plain kind, for whoever may not
-- use the other.

-- Whoever listens somewhere else, because the lock has moved here since, is told to ask again, and waits here then.
local function listeners(inbox, its_token, its_lock)
  local sharded, plain = redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2], redis.call('PUBSUB', 'NUMSUB', inbox)[2]
  if sharded + plain == 0 then
    redis.pcall('PUBLISH', inbox, 'free|' .. its_token .. '|0|0|' .. its_lock)
  end
  return sharded + plain
end

local function notify(inbox, text)
  if redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2] > 0 then
    redis.pcall('SPUBLISH', inbox, text)
  else
    redis.pcall('PUBLISH', inbox, text)
  end
end

