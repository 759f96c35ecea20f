-- Returns whether access rules allow to publish to this inbox. From Redis 7.0 on.
local function may_notify(inbox, text)
  return redis.acl_check_cmd('PUBLISH', inbox, text)
end
