-- Publishes as notify_sharded.lua, but raises an error, as redis.call does. The error of the server has this line,
-- which names the command.
local function must_notify(inbox, text)
  if redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2] == 0 then
    redis.call('PUBLISH', inbox, text)
  else
    redis.call('SPUBLISH', inbox, text)
  end
end
