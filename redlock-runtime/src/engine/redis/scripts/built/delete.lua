-- Deletes a lock that this token holds and that has no waiters: its value has no mark.
-- KEYS[1] the lock   ARGV[1] token
-- Returns 1, or 0 if the lock has another value.
-- Idempotent by token: a second call finds no lock of it.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
