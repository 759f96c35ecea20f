-- Reserves fencing tokens for the waiters of the holder's process, which get the lock without another request.
-- KEYS[1] the lock   KEYS[2] the clock of fencing tokens
-- ARGV[1] token   ARGV[2] how many
-- Returns the last of them; 0 if this token does not hold the lock, or if the clock would get ahead of the server's
-- time, because a server that has lost its data begins again at its time.
-- A second call reserves as many more.
--- @include "value_of"
--- @include "parse"
if parse(value_of(KEYS[1])) ~= ARGV[1] then return 0 end
local now = redis.call('TIME')
local last = (tonumber(redis.call('GET', KEYS[2])) or 0) + tonumber(ARGV[2])
if last > now[1] * 1000000 + now[2] then return 0 end
redis.call('SET', KEYS[2], string.format('%.0f', last))
return last
