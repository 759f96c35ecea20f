-- Redlock: takes a lock on one node of several, if it is nobody's, or this token's already.
-- KEYS[1] the lock   KEYS[2] the node's clock of fencing tokens
-- ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] a fencing token that the client would like
-- Returns the wish, if it is above everything that this node has seen, and remembers it; else a number above the wish
-- that is not below what the node has seen.
-- When the lock is somebody else's, {0, the holder's value, its PTTL in ms (-1: none), '0', -1}.
local holder = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) == false and redis.call('GET', KEYS[1])
if holder then
  if holder ~= ARGV[1] then return {0, holder, redis.call('PTTL', KEYS[1]), '0', -1} end
  redis.call('PEXPIRE', KEYS[1], math.max(ARGV[2], redis.call('PTTL', KEYS[1])))
end
local wish = tonumber(ARGV[3])
local seen = tonumber(redis.call('GETSET', KEYS[2], ARGV[3])) or 0
if seen < wish then return wish end
redis.call('SET', KEYS[2], string.format('%.0f', seen))
return math.max(seen, wish + 1)
