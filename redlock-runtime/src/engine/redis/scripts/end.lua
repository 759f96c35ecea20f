-- One of several that have a counted lock lets its lease end at this time. One that has the lock alone, as in leave.lua, does, too:
-- keep.lua and renew.lua follow. Behind counted.lua.
-- KEYS as in queue.lua and counted.lua   ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] 'exactly'   ARGV[4] inbox
-- ARGV[7] as in enter.lua
-- Returns 1, or 0 when it is not inside, or 2 when the caller has to call again.
if not look(value_of(lock)) then return 2 end
if limit then
  if not redis.call('ZSCORE', holders, mine) then return 0 end
  local lasts = ttl + 1
  -- And half a ms: its process, which lets it end, is not stuck.
  local px = keep(lasts + 1, false, redis.call('PTTL', lock))
  -- First what a full server allows.
  redis.call('PEXPIRE', holders, px or redis.call('PTTL', holders))
  redis.call('ZADD', holders, string.format('%.1f', now_ms() + lasts + 0.5), mine)
  shorten()
  tell_each(first_two())
  return 1
end

