-- Shared by acquire and release: how a free lock goes to the longest waiter that is still there.
--
-- KEYS[1] the lock, a string: the holder's token
-- KEYS[2] its queue, a sorted set that exists only while somebody waits. Member: token|ttl in ms|inbox;
--         score: order of arrival
-- KEYS[3] the clock of fencing tokens, one per server
-- ARGV[1] token   ARGV[2] ttl in ms   ARGV[4] inbox: the channel that the caller listens to; not for one try
-- Behind fence.lua.
--
-- A waiter is there while somebody listens to its inbox. That is asked with NUMSUB: what PUBLISH answers also
-- counts clients that listen to every channel by pattern.
local lock, queue, clock = KEYS[1], KEYS[2], KEYS[3]
local token, ttl = ARGV[1], ARGV[2]
local me = token .. '|' .. ttl .. '|' .. (ARGV[4] or '')

-- A granted waiter has this long, in ms, to claim its lock by a renewal: a stuck one costs the others no more.
local CLAIM = 1000

-- Members that one call looks at, at most, which is a few ms: its caller asks for the next call at once. And how many
-- are read together.
local MOST, TOGETHER = 2000, 250

-- Of a waiter: its token, ttl and inbox. Nothing of a member that is malformed.
local function read(member)
  return string.match(member or '', '^([^|]+)|([1-9]%d*)|(.*)$')
end

-- A process has one inbox for all its waiters: each is asked for once.
local heard = {}
local function is_heard(next_token, next_inbox)
  if heard[next_inbox] == nil then
    heard[next_inbox] = redis.call('PUBSUB', 'NUMSUB', next_inbox)[2] > 0
  end
  return heard[next_inbox]
end

-- This waiter looks when the claim in front may be over, what it knew of the holder is out of date, and says then whose
-- claim it was.
local function tell_next(member, lasts, claimant)
  local next_token, _, next_inbox = read(member)
  if not next_token then return end
  redis.pcall('PUBLISH', next_inbox, 'next|' .. next_token .. '|' .. lasts .. '|' .. claimant .. '|' .. lock)
end

-- The head is told, and, if it is of the same process, the first of another one: a stuck process does not look. A process
-- that passes a lock on to itself is not stuck.
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

-- The first waiter that listens gets the lock; the dead and malformed ones in front of it leave the queue.
-- Returns its token; nil when nobody waits any more; false when there may be more waiters than one call looks at.
--
-- The order of effects makes every prefix safe, should the server stop in the middle (out of memory, no
-- permission): the waiter leaves the queue, then the lock has an expiry, then it is told.
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
