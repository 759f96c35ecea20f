-- The waiters of a lock.
--
-- KEYS[1] the lock
-- KEYS[2] its queue, a sorted set that exists while the lock has waiters. Member: token|ttl in ms|inbox, and |unfenced
--         for one that draws no fencing token, or |once for one whose body runs once, which asks again when it is granted
--         the lock by a push, or |n5 for one that allows five at a time, itself included, and |n0 for one
--         that allows any number; score: order of arrival
-- KEYS[4] the claim, which exists only while the lock has waiters: the inbox of the waiter that got the lock last
local lock, queue, claim = KEYS[1], KEYS[2], KEYS[4]

-- In ms. The queue of crashed waiters expires; live waiters ask again much sooner.
local QUEUE_TTL = '60000'

-- Returns token, ttl and inbox of a waiter, and what is behind, '' for a fenced one; nil for a malformed member.
local function read(member)
  return string.match(member or '', '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$')
end

-- Marks the lock with this value, holder and grace, unless it is marked already, or a foreign client's.
local function set_mark(value, pttl, holder, grace)
  if not holder or grace > 0 then return end
  if pttl < 0 then return redis.call('SET', lock, value .. '!') end
  -- As text: the server takes longer over a number than over the rest of the mark.
  redis.call('SET', lock, value .. '!', 'PX', string.format('%d', pttl + GRACE))
end

