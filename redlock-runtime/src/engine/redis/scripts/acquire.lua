-- Takes a lock that is free or that this token holds already; else joins its queue. Behind take.lua and grant.lua.
-- ARGV[3] '0': one try; 'join': may wait in the queue, unless ARGV[5] waiters do already; 'join_again': the same, of an
--         attempt that may have a place already, so that it must not pass those in front; 'again': has waited in the queue;
--         'rejoin': has waited, and all others of its inbox ask again, too; 'overdue': has waited, and the claim is over of
--         the inbox with the hash ARGV[5]
-- Returns a fencing token (0: unfenced), or {2, waiters} for a full queue, or {3} when the same call again has to go on, or
--         {0, the holder's token, what is left of its lease in ms (-1: no expiry), server time in us, waiters in front (-1:
--         not queued)}.
-- Idempotent by token: for the holder, a second call renews, so that a caller asks again after a lost reply and counts
-- its lease from the latest request; a waiter keeps its place. A waiter that asks again gets the lock for a claim only: its
-- process may be stuck although its connection is open. A request that arrives late never shortens a lease.

local waits = ARGV[3] ~= '0'
local joins = ARGV[3] == 'join' or ARGV[3] == 'join_again'
local has_waited = waits and not joins

-- Returns the fencing token, and the waiters to tell how many ms the lock lasts.
local function take(at_least, grace)
  local fence = unfenced and 0 or next_fence()
  local lasts = tonumber(ttl)
  if has_waited then lasts = math.min(lasts, CLAIM) end
  lasts = math.max(lasts, at_least)
  local waiters = first_two()
  put(token, lasts, grace, waiters)
  return fence, waiters, lasts
end

-- The queue is gone (FLUSHALL, DEL, eviction), or only this waiter has left it, granted. The other waiters of its inbox may
-- have lost their places, too, and only one of them asks.
local function tell_place_lost()
  if not has_waited or ARGV[3] == 'rejoin' then return end
  redis.pcall('PUBLISH', ARGV[4], 'gone|' .. token .. '|0|0||' .. lock)
end

local function join()
  if not redis.call('ZSCORE', queue, me) then
    tell_place_lost()
    add(redis.call('ZCARD', queue))
  else
    redis.call('PEXPIRE', queue, QUEUE_TTL)
  end
end

-- The hash of a `Claimant` of the client.
local function sum_of(inbox)
  local sum = 0
  for i = 1, #inbox do
    sum = (sum * 31 + string.byte(inbox, i)) % 4294967296
  end
  return sum
end

-- A process that lets a claim run out is stuck. Each of its waiters would get a claim, so all leave the queue. If the
-- process recovers, the first of them that asks again tells the others.
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

local holder, grace = parse(value)
local pttl = value and redis.call('PTTL', lock) or 0
local left = without_grace(pttl, grace)
if holder == token then
  redis.call('ZREM', queue, me)
  return (take(left, grace))
end
if joins and not redis.call('ZSCORE', queue, me) then
  local waiters = redis.call('ZCARD', queue)
  if waiters >= tonumber(ARGV[5]) then return {2, waiters} end
end
-- In its grace, the lease of a marked lock is over.
if value and (grace == 0 or left ~= 0) then
  if waits then
    join()
    set_mark(value, pttl)
  end
else
  -- No waiter is overtaken: a free lock with a queue goes to its head, which may be this token.
  if redis.call('EXISTS', queue) == 0 then
    tell_place_lost()
    return (take(0))
  end
  if waits then join() end
  if ARGV[3] == 'overdue' then drop_waiters_of(tonumber(ARGV[5])) end
  holder, left = grant()
  if holder == false then return {3} end
  if not holder or holder == token then
    local fence, waiters, lasts = take(0)
    tell(waiters, lasts, time(), ARGV[4] or '')
    return fence
  end
end
local in_front = waits and redis.call('ZRANK', queue, me) or -1
return {0, holder or value, left, time(), in_front}
