-- Takes a lock on one node of a quorum, if it is free or this token holds it already.
-- KEYS[1] the lock   KEYS[2] the node's clock of fencing tokens
-- ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] the fencing token that the client asks for
-- ARGV[4] 'late': the time in the token is not that of this request
-- Returns that fencing token if it is above the node's clock, and sets the clock to it; otherwise a number above it
-- that is not below the clock. If another token holds the lock, returns {0, the first 512 bytes of the holder's value,
-- its PTTL in ms (-1: none), '0', -1, when it was granted, in seconds, or ''}.
-- Idempotent by token: a second call renews, and returns another number.
--- @include "without_time"
local granted = ARGV[4] == 'late' and '=' .. redis.call('TIME')[1] or ''
local holder = redis.call('SET', KEYS[1], ARGV[1] .. granted, 'NX', 'PX', ARGV[2]) == false
  and redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(holder) == 'table' then holder = redis.call('GET', KEYS[1]) end
if holder then
  if without_time(holder, ARGV[1]) ~= ARGV[1] then
    holder = string.sub(holder, 1, 512)
    local its_token, seconds = string.match(holder, '^(.+)=(%d+)$')
    return {0, its_token or holder, redis.call('PTTL', KEYS[1]), '0', -1, seconds or ''}
  end
  redis.call('PEXPIRE', KEYS[1], math.max(ARGV[2], redis.call('PTTL', KEYS[1])))
end
local wanted = tonumber(ARGV[3])
local seen = tonumber(redis.call('GETSET', KEYS[2], ARGV[3])) or 0
if seen < wanted then return wanted end
redis.call('SET', KEYS[2], string.format('%.0f', seen))
return math.max(seen, wanted + 1)
