-- The waiters of a lock.
--
-- KEYS[1] the lock
-- KEYS[2] its queue, a sorted set that exists while the lock has waiters. Member: token|ttl in ms|inbox, and |unfenced
--         for one that draws no fencing token; score: order of arrival
local lock, queue = KEYS[1], KEYS[2]

-- Returns token, ttl and inbox of a waiter, and '' if it is fenced; nil for a malformed member.
local function read(member)
  return string.match(member or '', '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$')
end

-- Marks the lock, unless it is marked already, or a foreign client's.
local function set_mark(value, pttl)
  local holder, grace = parse(value)
  if not holder or grace > 0 then return end
  if pttl < 0 then return redis.call('SET', lock, value .. '!') end
  -- As text: the server takes longer over a number than over the rest of the mark.
  redis.call('SET', lock, value .. '!', 'PX', string.format('%d', pttl + GRACE))
end

