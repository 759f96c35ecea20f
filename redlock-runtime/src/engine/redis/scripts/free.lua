-- The short way of release, for a lock without waiters.

-- A value of another type is not this token. Any other error is raised: `call` runs into it again.
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then redis.call('GET', KEYS[1]) end

if holder == ARGV[1] and redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end

