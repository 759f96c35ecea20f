-- Takes a lock that is free or that this token holds already; otherwise joins its queue.
-- KEYS[1] the lock
-- KEYS[2] its queue: see member.lua
-- KEYS[3] the clock of fencing tokens, one per server
-- KEYS[4] the claim: see set_lock.lua
-- KEYS[5] the holders of a counted lock: see counted.lua. A caller that does not know of holders leaves the key out,
-- and calls again if the lock has some   KEYS[6] its central limit: see central.lua
-- ARGV[1] token   ARGV[2] ttl in ms
-- ARGV[3] '0': one try; 'late': one try of a caller that has asked before; 'join': may wait in the queue, unless
--         ARGV[5] waiters do already; 'join_again': as 'join', for an attempt that may have a place already, so that it
--         must not pass the waiters in front; 'again': has waited in the queue; 'rejoin': has waited, and all others of
--         its inbox ask again, too
-- ARGV[4] inbox: the channel that the caller subscribes to; empty for one try   ARGV[5] how many may wait   ARGV[6] the
-- floor of fence.lua
-- ARGV[7] its kind: 'unfenced', it draws no fencing token; 'once', its body runs once
-- Returns a fencing token (0: unfenced), or {2, waiters} for a full queue, or {3} if the caller has to call again, or
--         {0, the holder's token, what is left of its lease in ms (-1: no expiry), server time in us, waiters in front
--         (-1: not queued), when it was granted in seconds, or '' if that is the time in its token; for a counted lock
--         what who_keeps_out returns}.
-- Idempotent by token: for the holder, a second call renews, so a caller can ask again after a lost reply, and measures
-- its lease from the latest request. A waiter keeps its place. A waiter that asks again gets the lock for a claim only:
-- its process may be stuck although its connection is open. A request that arrives late never shortens a lease.
--- @include "fence"

-- The short way, for a free key and the first request of an attempt, or for a caller that does not wait. It has the
-- same effect as the long way below.
if ARGV[7] ~= 'unfenced' and (ARGV[3] == '0' or ARGV[3] == 'join')
  and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local counted, fence = pcall(next_fence, KEYS[3], ARGV[6])
  if counted then return fence end
  redis.call('DEL', KEYS[1])
  -- Runs into the same error again.
  next_fence(KEYS[3], ARGV[6])
end

-- Bounded, as in value_of.lua.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if value == '' and redis.call('EXISTS', KEYS[1]) == 0 then value = false end

-- An unfenced caller calls this script only if others want the lock, too: so it reads before it tries.
if not value and ARGV[7] == 'unfenced' and (ARGV[3] == '0' or ARGV[3] == 'join') then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 0
end

local lock, queue, clock, claim, holders, permits = unpack(KEYS)
local token, ttl, how, inbox, at_most, floor, kind = unpack(ARGV)
inbox, kind = inbox or '', kind or ''
--- @include "shown"
--- @include "parse"
--- @include "without_grace"
--- @include "set_mark" (lock)
--- @include "time"
--- @include "me" (token, ttl, inbox, kind)
--- @include "add_waiter" (queue, me)

-- The short way, for the first request of an attempt and a lock of another token: the caller joins the queue. It has
-- the same effect as the long way below. The value of a counted lock begins with a %, which no token contains.
local COUNTED = 37
if how == 'join' and value then
  local holder, grace, granted = parse(value)
  local pttl = redis.call('PTTL', lock)
  local left = without_grace(pttl, grace)
  -- In its grace, the lease of a marked lock is over.
  if holder ~= token and (grace == 0 or left ~= 0) then
    local waiters = redis.call('ZCARD', queue)
    if waiters < tonumber(at_most) and (grace > 0 or waiters == 0 and holder or not holder and string.byte(value) ~= COUNTED) then
      add_waiter(waiters)
      if grace == 0 then
        set_mark(value, pttl, holder, grace)
      end
      return {0, holder or string.sub(value, 1, SHOWN), left, time(), waiters, string.sub(granted, 2)}
    end
  end
end

local leaves = false
--- @include "asks" (how)
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "notified_waiters" (queue)
--- @include "evict" (queue)
--- @include "evict_stalled" (lock, queue, claim, inbox)
--- @include "notify_place_lost" (lock, how, inbox, token)
--- @include "count_waiters" (lock, queue, token, leaves, at_most)
--- @include "enqueue" (lock, queue, how, inbox, token, me)

local holder, grace, granted = parse(value)
local pttl = value and redis.call('PTTL', lock) or 0
local left = without_grace(pttl, grace)
-- Another token holds the lock. In its grace, the lease of a marked lock is over.
if value and holder ~= token and (grace == 0 or left ~= 0) and not string.find(value, '^%%holders|%d+|%d+$') then
  -- Notifies the waiters that are in front now, after others have left. A foreign client releases without a push, so 0:
  -- see release.lua.
  local function notify_new_front()
    if have_left then notify_waiters(notified_waiters(), holder and math.max(left, 0) or 0, time(), '') end
  end
  local others_wait = has_waited
  if joins and not redis.call('ZSCORE', queue, me) then
    local waiters, is_full = count_waiters()
    if is_full then
      notify_new_front()
      return {2, waiters}
    end
    others_wait = waiters > 0
  end
  if waits then
    -- Without a mark, the lock was taken past its queue: the lease before it has ended without a release.
    if others_wait and holder and grace == 0 and not evict_stalled() then return {3} end
    enqueue()
    set_mark(value, pttl, holder, grace)
    notify_new_front()
  end
  local in_front = waits and redis.call('ZRANK', queue, me) or -1
  return {0, holder or string.sub(value, 1, SHOWN), left, time(), in_front, string.sub(granted, 2)}
end

--- @include "mine" (token, inbox, kind)
--- @include "claim"
--- @include "first_two" (queue)
--- @include "granted_now"
--- @include "set_lock" (lock, claim)
--- @include "counted" (holders, permits)
--- @include "read_holders" (lock, queue, holders, permits, inbox)
--- @include "admit_waiters" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
--- @include "grant_next" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
--- @include "who_keeps_out" (queue, holders, permits)
--- @include "notify_front" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
--- @include "hinted" (queue, claim, holders, permits, inbox)

-- Takes the lock. `granted`: the time of the grant, if the caller holds the lock already. Returns the fencing token,
-- and how many ms the lock lasts.
local function take_lock(at_least, grace, waiters, granted)
  local fence = kind == 'unfenced' and 0 or next_fence(clock, floor)
  local lasts = tonumber(ttl)
  if has_waited then lasts = math.min(lasts, CLAIM) end
  lasts = math.max(lasts, at_least)
  if not granted then granted = (how == '0' or how == 'join') and '' or granted_now() end
  set_lock(token .. granted, lasts, grace, waiters, inbox)
  return fence, lasts
end

if holder == token then
  if redis.call('EXISTS', queue) == 0 then return (take_lock(left, grace, {}, granted)) end
  redis.call('ZREM', queue, me)
  return (take_lock(left, grace, first_two(), granted))
end
-- Several callers may hold the lock.
local inside_now
if not holder and not read_holders(value) then return {3} end
if limit then inside_now, left = inside > 0 and who_is_inside(), left_for(1, 1) end
local is_over = not inside_now
if is_over then
  if redis.call('EXISTS', queue) == 0 then
    notify_place_lost()
    return (take_lock(0, nil, {}))
  end
  if not evict_stalled() then return {3} end
end
if joins and not redis.call('ZSCORE', queue, me) then
  local waiters, is_full = count_waiters()
  if is_full then
    return have_left and not notify_front(holder, left) and {3} or {2, waiters}
  end
end
if not is_over then
  if waits then
    find_hinted()
    enqueue()
    leave_unanswered()
  end
  -- The waiters in front may have room, or may be dead.
  if waits or have_left then
    inside_now, left = admit_waiters()
    if inside_now == false then return {3} end
  end
else
  -- The caller overtakes no waiter: a free lock with a queue goes to its head, which may be this token.
  if waits then enqueue() end
  holder, left = grant_next()
  if holder == false then return {3} end
  granted = inside > 0 and '' or granted_now()
  if not holder or holder == token then
    local waiters = left or {}
    local fence, lasts = take_lock(0, nil, waiters)
    notify_waiters(waiters, lasts, time(), inbox)
    return fence
  end
end
local in_front = waits and redis.call('ZRANK', queue, me) or -1
local since = inside > 0 and who_keeps_out(1, 1) or string.sub(granted, 2)
return {0, holder or inside_now, left, time(), in_front, since}
