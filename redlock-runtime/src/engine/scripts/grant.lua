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

-- Dead waiters that one call clears away at most; the next call goes on.
local MOST = 64

-- Whoever is next from now on looks when the claim in front may be over: what it knew of the holder is out of date.
local function tell_head(lasts)
  local head = redis.call('ZRANGE', queue, 0, 0)[1]
  if not head then return end
  local its_token, _, its_inbox = string.match(head, '^([^|]*)|([^|]*)|(.*)$')
  redis.pcall('PUBLISH', its_inbox, 'next|' .. its_token .. '|' .. lasts .. '|0|' .. lock)
end

-- The order of effects makes every prefix safe, should the server stop in the middle (out of memory, no
-- permission): the waiter leaves the queue, then the lock has an expiry, then it is told.
local function grant()
  for _ = 1, MOST do
    local head = redis.call('ZPOPMIN', queue)[1]
    if not head then return nil end
    local next_token, next_ttl, next_inbox = string.match(head, '^([^|]*)|([^|]*)|(.*)$')
    if next_token == token then
      return token
    end
    if redis.call('PUBSUB', 'NUMSUB', next_inbox)[2] > 0 then
      local fence = next_fence()
      local lasts = string.format('%.0f', math.min(tonumber(next_ttl), CLAIM))
      redis.call('SET', lock, next_token, 'PX', lasts)
      local now = time()
      fence = string.format('%.0f', fence)
      redis.pcall('PUBLISH', next_inbox, 'granted|' .. next_token .. '|' .. fence .. '|' .. now .. '|' .. lock)
      tell_head(lasts)
      return next_token
    end
  end
  return nil
end
