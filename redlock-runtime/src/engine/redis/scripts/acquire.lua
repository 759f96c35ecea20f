-- Takes a lock that is free, or is this token's already; else joins its queue. Behind take.lua and grant.lua.
-- ARGV[3] '0': one try; 'join': may wait in the queue, unless ARGV[5] do already; 'again': has waited in it;
--         'rejoin': the same, and all others of its inbox do so, too; 'overdue': has waited, and the inbox of which
--         ARGV[5] is the sum had a claim that is over by now
-- Returns a fencing token, or {2, waiters} for a full queue, or {3} when the same call again has to go on, or
--         {0, the holder's value, its PTTL in ms (-1: none), server time in us, waiters in front (-1: not queued)}.
-- Idempotent by token: the second call of a granted token renews, so that a lost reply is answered by asking
-- again, and the lease may be counted from the latest request; a waiter keeps its place. A waiter that asks again
-- gets the lock for a claim: it may be one that is heard and does not hear. A request that arrives late never shortens
-- what its token holds by then.

-- Outlives a crashed process's waiters, and no more: those that are alive ask again much sooner.
local QUEUE_TTL = 60000

local waits = ARGV[3] ~= '0'
local has_waited = waits and ARGV[3] ~= 'join'

local function take(at_least)
  local fence = next_fence()
  local lasts = tonumber(ttl)
  if has_waited then lasts = math.min(lasts, CLAIM) end
  redis.call('SET', lock, token, 'PX', string.format('%.0f', math.max(lasts, at_least)))
  return fence
end

-- The queue has vanished (FLUSHALL, DEL, eviction), or this waiter alone has left it, granted: the others of its inbox
-- may stand in no queue any more, and only one of them asks.
local function tell_place_lost()
  if not has_waited or ARGV[3] == 'rejoin' then return end
  redis.pcall('PUBLISH', ARGV[4], 'gone|' .. token .. '|0|0|' .. lock)
end

local function join()
  if not redis.call('ZSCORE', queue, me) then
    tell_place_lost()
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', queue, string.format('%.0f', math.max(tonumber(time()), (tonumber(last) or 0) + 1)), me)
  end
  redis.call('PEXPIRE', queue, QUEUE_TTL)
end

-- As the client counts it, too.
local function sum_of(inbox)
  local sum = 0
  for i = 1, #inbox do
    sum = (sum * 31 + string.byte(inbox, i)) % 4294967296
  end
  return sum
end

-- A process that let its claim run out is stuck, and each of its waiters would be given a claim: they count as dead. The
-- first of them that asks again tells the others that their places are gone.
local function drop_waiters_of(stuck)
  if sum_of(ARGV[4]) == stuck then return end
  local is_stuck, gone = {}, {}
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, 5 * MOST - 1)) do
    local _, _, inbox = read(member)
    if inbox and is_stuck[inbox] == nil then is_stuck[inbox] = sum_of(inbox) == stuck end
    if inbox and is_stuck[inbox] then gone[#gone + 1] = member end
  end
  for i = 1, #gone, TOGETHER do
    redis.call('ZREM', queue, unpack(gone, i, math.min(i + TOGETHER - 1, #gone)))
  end
end

local holder = redis.call('GET', lock)
if holder == token then
  return take(redis.call('PTTL', lock))
end
if ARGV[3] == 'join' and not redis.call('ZSCORE', queue, me) then
  local waiters = redis.call('ZCARD', queue)
  if waiters >= tonumber(ARGV[5]) then return {2, waiters} end
end
if holder then
  if waits then join() end
else
  -- Nobody barges: a free lock with a queue goes to its head, who may be me.
  if redis.call('EXISTS', queue) == 0 then
    tell_place_lost()
    return take(0)
  end
  if waits then join() end
  if ARGV[3] == 'overdue' then drop_waiters_of(tonumber(ARGV[5])) end
  holder = grant()
  if holder == false then return {3} end
  if not holder or holder == token then return take(0) end
end
local in_front = waits and redis.call('ZRANK', queue, me) or -1
return {0, holder, redis.call('PTTL', lock), time(), in_front}
