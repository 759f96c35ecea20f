-- Writes the expiry of a counted lock again, so that WAIT has a write after the grant. The key lasts as long as before.
-- KEYS[1] the lock   ARGV[1] the fencing token of the holders
-- Returns 1, or 0 when their phase is over.
-- Idempotent: it changes nothing.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if string.match(value or '', '^%%holders|%d+|(%d+)$') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + 1)
