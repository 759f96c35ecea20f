-- For acquire and release: hands a free lock to the longest waiter that is still there. Behind fence.lua and tell.lua.
--
-- KEYS[3] the clock of fencing tokens, one per server
-- ARGV[1] token   ARGV[2] ttl in ms   ARGV[4] inbox: the channel that the caller subscribes to; empty for one try
-- ARGV[7] 'unfenced': it draws no fencing token
--
-- A waiter is there while its inbox has a subscriber. NUMSUB tells that: the reply of PUBLISH also counts clients that
-- subscribe to all channels by pattern.
local token, ttl = ARGV[1], ARGV[2]
local unfenced = ARGV[7] == 'unfenced'
local me = token .. '|' .. ttl .. '|' .. (ARGV[4] or '') .. (unfenced and '|unfenced' or '')

-- A granted waiter has to claim its lock by a renewal within this time, in ms: a stuck waiter costs the others no more.
local CLAIM = 1000

-- A process has one inbox for all its waiters, so each inbox is checked once.
local heard = {}
local function is_heard(next_token, next_inbox)
  if heard[next_inbox] == nil then
    heard[next_inbox] = redis.call('PUBSUB', 'NUMSUB', next_inbox)[2] > 0
  end
  return heard[next_inbox]
end

-- The lock is this token's for so many ms, and marked if it has waiters, or if `grace` says so. Returns the waiters to tell,
-- and the mark.
local function put(next_token, lasts, grace)
  local waiters, mark = first_two(), ''
  if #waiters > 0 or grace and grace > 0 then
    lasts, mark = lasts + GRACE, '!'
  end
  redis.call('SET', lock, next_token .. mark, 'PX', string.format('%.0f', lasts))
  return waiters, mark
end

-- The first waiter whose inbox has a subscriber gets the lock; dead and malformed ones in front of it leave the queue.
-- Returns its token, and for how many ms it has the lock; nil when the queue is empty; false when the queue may be longer
-- than one call reads. If the token is the caller's, the lock is still free.
--
-- The order of effects is safe if the server stops in the middle (out of memory, no permission): the waiter leaves the
-- queue, then the lock is set with its expiry, then the waiter is told.
local function grant()
  local looked, size = 0, 2
  while looked < MOST do
    local members = redis.call('ZRANGE', queue, 0, size - 1)
    for i, member in ipairs(members) do
      local next_token, next_ttl, next_inbox, kind = read(member)
      if next_token == token then
        redis.call('ZPOPMIN', queue, i)
        return token
      end
      if next_token and is_heard(next_token, next_inbox) then
        redis.call('ZPOPMIN', queue, i)
        local fence = kind == '' and string.format('%.0f', next_fence()) or '0'
        local lasts = math.min(tonumber(next_ttl), CLAIM)
        local waiters, mark = put(next_token, lasts)
        local now = time()
        redis.pcall('PUBLISH', next_inbox,
          'granted|' .. next_token .. '|' .. fence .. '|' .. now .. '|' .. mark .. '|' .. lock)
        tell(waiters, lasts, now, next_inbox)
        return next_token, lasts
      end
    end
    if #members > 0 then redis.call('ZREM', queue, unpack(members)) end
    if #members < size then return nil end
    looked, size = looked + size, TOGETHER
  end
  return false
end

