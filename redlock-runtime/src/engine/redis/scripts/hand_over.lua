-- The short way of release, for a lock with waiters whose first one is there: it gets the lock. Behind free.lua and give.lua.
-- ARGV[3] as in release.lua
-- ARGV[8] and so on: the tokens of the followers that have had the lock since it was granted to this token

local followers = {}
for i = 8, #ARGV do followers[i - 7] = ARGV[i] .. '|' .. ARGV[2] .. '|' .. ARGV[4] .. '|unfenced' end

if value == ARGV[1] .. '!' and (ARGV[3] ~= '1' or time() % 128 > #followers) then
  if #followers > 0 then redis.call('ZREM', queue, unpack(followers)) end
  local first, second, third = unpack(redis.call('ZRANGE', queue, '0', '2'))
  local next_token, next_ttl, next_inbox, kind = read(first)
  if next_token and next_token ~= ARGV[1] and redis.call('PUBSUB', 'NUMSUB', next_inbox)[2] > 0 then
    redis.call('ZREM', queue, first)
    give(next_token, next_ttl, next_inbox, kind, {second, third})
    return 1
  end
end

