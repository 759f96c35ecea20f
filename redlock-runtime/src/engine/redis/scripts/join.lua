-- The short way of acquire, for the first request of an attempt and a marked lock of another token: the caller joins the
-- queue. Behind caller.lua.
-- ARGV[3], ARGV[5] as in acquire.lua

-- In ms. The queue of crashed waiters expires; live waiters ask again much sooner.
local QUEUE_TTL = 60000

-- Behind these waiters, also when the clock went back.
local function add(waiters)
  redis.call('ZADD', queue, time(), me)
  if redis.call('ZRANK', queue, me) == waiters then return end
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', queue, string.format('%.0f', last + 1), me)
end

local function join_marked()
  local value = redis.call('GET', lock)
  local holder, grace = parse(value)
  if grace == 0 or holder == token then return end
  local left = without_grace(redis.call('PTTL', lock), grace)
  if left == 0 then return end
  local waiters = redis.call('ZCARD', queue)
  if waiters >= tonumber(ARGV[5]) then return end
  add(waiters)
  redis.call('PEXPIRE', queue, QUEUE_TTL)
  return {0, holder, left, time(), waiters}
end

local answer = ARGV[3] == 'join' and join_marked()
if answer then return answer end

