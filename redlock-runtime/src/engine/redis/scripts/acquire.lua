-- Takes a lock that is free or that this token holds already; else joins its queue. Behind take.lua, place.lua and counted.lua.
-- ARGV[3] '0': one try; 'late': one try, of a caller that has asked before; 'join': may wait in the
--         queue, unless ARGV[5] waiters do already; 'join_again': the same, of an attempt that may have
--         a place already, so that it must not pass those in front; 'again': has waited in the queue;
--         'rejoin': has waited, and all others of its inbox ask again, too
-- Returns a fencing token (0: unfenced), or {2, waiters} for a full queue, or {3} when the same call
--         again has to go on, or {0, the holder's token, what is left of its lease in ms (-1: no
--         expiry), server time in us, waiters in front (-1: not queued), when it was granted in
--         seconds, or '' when that is the time in its token; of a counted lock what who_keeps_out returns}.
-- Idempotent by token: for the holder, a second call renews, so that a caller asks again after a lost reply and counts
-- its lease from the latest request; a waiter keeps its place. A waiter that asks again gets the lock for a claim only: its
-- process may be stuck although its connection is open. A request that arrives late never shortens a lease.

-- `granted`: of a lock that the caller has already. Returns the fencing token, and how many ms the
-- lock lasts.
local function take(at_least, grace, waiters, granted)
  local fence = unfenced and 0 or next_fence()
  local lasts = tonumber(ttl)
  if has_waited then lasts = math.min(lasts, CLAIM) end
  lasts = math.max(lasts, at_least)
  if not granted then granted = (ARGV[3] == '0' or ARGV[3] == 'join') and '' or granted_now() end
  put(token .. granted, lasts, grace, waiters, ARGV[4] or '')
  return fence, lasts
end

local holder, grace, granted = parse(value)
local pttl = value and redis.call('PTTL', lock) or 0
local left = without_grace(pttl, grace)
if holder == token then
  if redis.call('EXISTS', queue) == 0 then return (take(left, grace, {}, granted)) end
  redis.call('ZREM', queue, me)
  return (take(left, grace, first_two(), granted))
end
-- Several may have it.
local counted
if not holder and not look(value) then return {3} end
if limit then counted, left = inside > 0 and who_is_inside(), left_for(1) end
-- In its grace, the lease of a marked lock is over.
local is_over = not value or grace > 0 and left == 0 or limit and not counted
if is_over then
  if redis.call('EXISTS', queue) == 0 then
    tell_place_lost()
    return (take(0, nil, {}))
  end
  if not drop_stuck() then return {3} end
end
local others_wait = has_waited
if joins and not redis.call('ZSCORE', queue, me) then
  local waiters, is_full = count_waiters()
  if is_full then
    return have_left and not tell_those_in_front(holder, left) and {3} or {2, waiters}
  end
  others_wait = waiters > 0
end
if not is_over then
  if waits then
    -- Without a mark, it was taken past its queue: the lease before it has ended without a release.
    if others_wait and holder and grace == 0 and not drop_stuck() then return {3} end
    if counted then find_hinted() end
    join()
    leave_unanswered()
    set_mark(value, pttl, holder, grace)
    if have_left and not counted then tell_those_in_front(holder, left) end
  end
  -- Others may be in front that have room, or are dead.
  if counted and (waits or have_left) then
    counted, left = let_in()
    if counted == false then return {3} end
  end
else
  -- No waiter is overtaken: a free lock with a queue goes to its head, which may be this token.
  if waits then join() end
  holder, left = grant()
  if holder == false then return {3} end
  granted = inside > 0 and '' or granted_now()
  if not holder or holder == token then
    local waiters = left or {}
    local fence, lasts = take(0, nil, waiters)
    tell(waiters, lasts, time(), ARGV[4] or '')
    return fence
  end
end
local in_front = waits and redis.call('ZRANK', queue, me) or -1
local since = inside > 0 and who_keeps_out(1) or string.sub(granted, 2)
return {0, holder or counted or string.sub(value, 1, SHOWN), left, time(), in_front, since}
