-- Redlock, second round: raises the clock of one node if this token still holds the lock there.
-- KEYS[1] the lock   KEYS[2] the node's clock of fencing tokens
-- ARGV[1] token   ARGV[2] the fencing token
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: it does not change a clock that is as high.
--- @include "without_time"
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(holder) == 'table' then holder = redis.call('GET', KEYS[1]) end
if without_time(holder, ARGV[1]) ~= ARGV[1] then return 0 end
if (tonumber(redis.call('GET', KEYS[2])) or 0) < tonumber(ARGV[2]) then redis.call('SET', KEYS[2], ARGV[2]) end
return 1
