-- Returns whether access rules allow to publish to this inbox. From Redis 7.0 on.
local function may_notify(inbox, text)
  local is_sharded = redis.call('PUBSUB', 'SHARDNUMSUB', inbox)[2] > 0
  return redis.acl_check_cmd(is_sharded and 'SPUBLISH' or 'PUBLISH', inbox, text)
end
