-- Writes the expiry of a record again, so that WAIT has a write after the request that stored the record. WAIT covers
-- only the writes of its own connection, and earlier writes.
-- KEYS[1] the record of a body that runs once, or of the last tick   ARGV[1] the runner, or the token: a text that only
-- this record contains
-- Returns 1, or 0 if the record does not exist, or is another one by now.
-- Idempotent: it changes nothing.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '1023')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) or '' end
local left = redis.call('PTTL', KEYS[1])
if left <= 0 or not string.find(value, ARGV[1], 1, true) then return 0 end
return redis.call('PEXPIRE', KEYS[1], left)
