-- The short way of release, for a lock without waiters: its value has no mark, and
-- no time, because its holder has not waited either.

-- No more than tells whether it is this token: see mark.lua. A value of another type is not this token. Access rules may forbid
-- GETRANGE; any other error is raised: `call` runs into it again.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then value = redis.call('GET', KEYS[1]) end

