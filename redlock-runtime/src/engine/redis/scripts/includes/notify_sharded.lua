-- Publishes to an inbox. In a Cluster, this is a sharded channel in a slot of the server that its client is
-- connected to, so that a push does not go to all servers; and a plain channel, for clients that may not use sharded ones.

-- Returns an error, as redis.pcall does.
local function notify(inbox, text)
  local is_sharded = redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2] > 0
  return redis.pcall(is_sharded and 'SPUBLISH' or 'PUBLISH', inbox, text)
end
