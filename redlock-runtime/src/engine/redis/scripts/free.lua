-- The short way of release, for a lock without waiters: its value has no mark.

-- A value of another type is not this token. Any other error is raised: `call` runs into it again.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then redis.call('GET', KEYS[1]) end

if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end

