-- Moves the expiry of several locks, of each if it is its token's, and makes none expire sooner. A client that asked for
-- it watches them from then on: all are read once more in the end, because our own change ends a watch.
-- KEYS the locks   ARGV for each its token and its ttl in ms (above zero: PEXPIRE 0 would delete)
-- Returns for each 1, or 0 when the lock is somebody else's, or -1 when it is nobody's.
local answers = {}
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if value == ARGV[2 * i - 1] then
    answers[i] = redis.call('PEXPIRE', key, math.max(ARGV[2 * i], redis.call('PTTL', key)))
  else
    answers[i] = value and 0 or -1
  end
end
redis.call('EXISTS', unpack(KEYS))
return answers
