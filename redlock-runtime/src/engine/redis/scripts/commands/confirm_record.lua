-- Writes a record again, behind the request that has stored it: WAIT covers only the writes of its own connection, and those in front
-- of them.
-- KEYS[1] the record of a body that runs once, or of the last tick   ARGV[1] the runner, or the token: what only this one has
-- Returns 1, or 0 when it is not there, or another one by now.
-- Idempotent: it changes nothing that is not so.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '1023')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) or '' end
local left = redis.call('PTTL', KEYS[1])
if left <= 0 or not string.find(value, ARGV[1], 1, true) then return 0 end
return redis.call('PEXPIRE', KEYS[1], left)
