-- Redlock: takes a lock on one node of several, if it is free or this token holds it already.
-- KEYS[1] the lock   KEYS[2] the node's clock of fencing tokens
-- ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] the fencing token that the client asks for
-- Returns that fencing token if it is above the node's clock, and sets the clock to it; else a number above it that is not
-- below the clock.
-- When another token holds the lock, {0, the first 512 bytes of the holder's value, its PTTL in ms (-1: none), '0', -1}.
local holder = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) == false
  and redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(holder) == 'table' then holder = redis.call('GET', KEYS[1]) end
if holder then
  if holder ~= ARGV[1] then return {0, string.sub(holder, 1, 512), redis.call('PTTL', KEYS[1]), '0', -1} end
  redis.call('PEXPIRE', KEYS[1], math.max(ARGV[2], redis.call('PTTL', KEYS[1])))
end
local wanted = tonumber(ARGV[3])
local seen = tonumber(redis.call('GETSET', KEYS[2], ARGV[3])) or 0
if seen < wanted then return wanted end
redis.call('SET', KEYS[2], string.format('%.0f', seen))
return math.max(seen, wanted + 1)
