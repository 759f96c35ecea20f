-- For acquire and release: hands a free lock to the longest waiter that is still there. Behind fence.lua.
--
-- KEYS[1] the lock, a string: the holder's token
-- KEYS[2] its queue, a sorted set that exists while the lock has waiters. Member: token|ttl in ms|inbox;
--         score: order of arrival
-- KEYS[3] the clock of fencing tokens, one per server
-- ARGV[1] token   ARGV[2] ttl in ms   ARGV[4] inbox: the channel that the caller subscribes to; empty for one try
--
-- A waiter is there while its inbox has a subscriber. NUMSUB tells that: the reply of PUBLISH also counts clients that
-- subscribe to all channels by pattern.
local lock, queue, clock = KEYS[1], KEYS[2], KEYS[3]
local token, ttl = ARGV[1], ARGV[2]
local me = token .. '|' .. ttl .. '|' .. (ARGV[4] or '')

-- A granted waiter has to claim its lock by a renewal within this time, in ms: a stuck waiter costs the others no more.
local CLAIM = 1000

-- Members that one call reads at most, in a few ms: its caller calls again at once. And members that are read together.
local MOST, TOGETHER = 2000, 250

-- Returns token, ttl and inbox of a waiter; nil for a malformed member.
local function read(member)
  return string.match(member or '', '^([^|]+)|([1-9]%d*)|(.*)$')
end

-- A process has one inbox for all its waiters, so each inbox is checked once.
local heard = {}
local function is_heard(next_token, next_inbox)
  if heard[next_inbox] == nil then
    heard[next_inbox] = redis.call('PUBSUB', 'NUMSUB', next_inbox)[2] > 0
  end
  return heard[next_inbox]
end

-- Tells a waiter that the lock was granted in front of it. It asks again when that claim may be over, and names the claimant.
local function tell_next(member, lasts, claimant)
  local next_token, _, next_inbox = read(member)
  if not next_token then return end
  redis.pcall('PUBLISH', next_inbox, 'next|' .. next_token .. '|' .. lasts .. '|' .. claimant .. '|' .. lock)
end

-- Tells the head of the queue, and, if that is of the claimant's process, the first waiter of another process, because a
-- stuck process does not ask. A process that hands a lock to itself is not stuck.
local function tell_those_behind(head, lasts, claimant)
  tell_next(head, lasts, claimant)
  local _, _, head_inbox = read(head)
  if head_inbox ~= claimant or ARGV[4] == claimant then return end
  for _, member in ipairs(redis.call('ZRANGE', queue, 1, TOGETHER)) do
    local _, _, other_inbox = read(member)
    if other_inbox and other_inbox ~= claimant then
      return tell_next(member, lasts, claimant)
    end
  end
end

-- The first waiter whose inbox has a subscriber gets the lock; dead and malformed ones in front of it leave the queue.
-- Returns its token; nil when the queue is empty; false when the queue may be longer than one call reads.
--
-- The order of effects is safe if the server stops in the middle (out of memory, no permission): the waiter leaves the
-- queue, then the lock is set with its expiry, then the waiter is told.
local function grant()
  local looked, size = 0, 2
  while looked < MOST do
    local members = redis.call('ZRANGE', queue, 0, size - 1)
    for i, member in ipairs(members) do
      local next_token, next_ttl, next_inbox = read(member)
      if next_token == token then
        redis.call('ZPOPMIN', queue, i)
        return token
      end
      if next_token and is_heard(next_token, next_inbox) then
        redis.call('ZPOPMIN', queue, i)
        local fence = next_fence()
        local lasts = string.format('%.0f', math.min(tonumber(next_ttl), CLAIM))
        redis.call('SET', lock, next_token, 'PX', lasts)
        local now = time()
        fence = string.format('%.0f', fence)
        redis.pcall('PUBLISH', next_inbox, 'granted|' .. next_token .. '|' .. fence .. '|' .. now .. '|' .. lock)
        tell_those_behind(members[i + 1] or redis.call('ZRANGE', queue, 0, 0)[1], lasts, next_inbox)
        return next_token
      end
    end
    if #members > 0 then redis.call('ZREM', queue, unpack(members)) end
    if #members < size then return nil end
    looked, size = looked + size, TOGETHER
  end
  return false
end
