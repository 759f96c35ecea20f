-- One of several leaves a counted lock, or its queue. One that has the lock alone, as an older version of a client has granted it,
-- releases it: release.lua follows. Behind leave_counted.lua, leave_free.lua and counted.lua.
-- ARGV as in release.lua   ARGV[7] as in enter.lua
-- Returns 1; or 0 when it was not inside; or 2 when the caller has to call again.
if not look(type(value) == 'string' and value) then return 2 end
if limit then
  local score, place = redis.call('ZSCORE', holders, mine), redis.call('ZRANK', queue, me)
  if redis.call('ZREM', holders, mine) == 1 then inside = inside - 1 end
  redis.call('ZREM', queue, me)
  if inside == 0 and leave_free() then return score and 1 or 0 end
  if let_others_in(place, score) then return score and 1 or 0 end
  -- So that the next call finds it, too.
  if score then redis.call('ZADD', holders, score, mine) end
  return 2
end

