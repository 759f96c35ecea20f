-- The short way of acquire, for a free lock without waiters. Behind fence.lua.
if (ARGV[3] == '0' or ARGV[3] == 'join') and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local fence = next_fence()
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return fence
end

