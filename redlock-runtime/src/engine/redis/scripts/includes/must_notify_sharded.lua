-- As notify_sharded.lua, and raises an error, as redis.call does. The server tells the line, which names the command.
local function must_notify(inbox, text)
  if redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2] == 0 then
    redis.call('PUBLISH', inbox, text)
  else
    redis.call('SPUBLISH', inbox, text)
  end
end
