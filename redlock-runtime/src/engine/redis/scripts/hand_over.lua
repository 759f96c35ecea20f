-- The short way of release, for a lock with waiters whose first one is there: it gets the lock. Behind free.lua and give.lua.
-- ARGV[3] as in release.lua
local function hand_over()
  if value ~= ARGV[1] .. '!' or ARGV[3] == '1' and time() % 128 == 0 then return false end
  local first, second, third = unpack(redis.call('ZRANGE', queue, 0, 2))
  local next_token, next_ttl, next_inbox, kind = read(first)
  if not next_token or next_token == ARGV[1] then return false end
  if redis.call('PUBSUB', 'NUMSUB', next_inbox)[2] == 0 then return false end
  redis.call('ZREM', queue, first)
  give(next_token, next_ttl, next_inbox, kind, {second, third})
  return true
end

if hand_over() then return 1 end

