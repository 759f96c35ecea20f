-- Returns how many clients subscribe to an inbox. The reply of PUBLISH also counts clients that subscribe to all
-- channels by pattern.
local function listeners(inbox)
  return redis.call('PUBSUB', 'NUMSUB', inbox)[2]
end
