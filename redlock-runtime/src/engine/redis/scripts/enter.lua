-- Takes a counted lock together with others, or joins its queue. Behind enter_free.lua, place.lua and counted.lua.
-- ARGV[3] as in acquire.lua   ARGV[7] n and how many it allows, 0 for any number
-- ARGV[8] 'try' where the server has refused a command that this needs: they are tried first
-- Returns what acquire.lua returns. The fencing token is that of all that are inside. One that has the lock alone, as an older version
-- of a client has granted it, is one of several from now on. The holder is %holders|the least that one of them allows|their fencing token|how many they are,
-- and in the place of the time of its grant stands what who_keeps_out returns.
-- Idempotent by token, as acquire.lua.

local number, lasts = number_of(kind), tonumber(ttl)
if has_waited then lasts = math.min(lasts, CLAIM) end

local holder, grace, granted = parse(value)
local pttl = value and redis.call('PTTL', lock) or 0
local left = without_grace(pttl, grace)
if holder == token then
  redis.call('ZREM', queue, me)
  admit(mine, number, math.max(lasts, left))
  enter()
  if let_in(lasts) == false then return {3} end
  return tonumber(phase)
end
if not holder and not look(value) then return {3} end
local score = limit and redis.call('ZSCORE', holders, mine)
if score then
  redis.call('ZREM', queue, me)
  local ends = math.max(now_ms() + lasts + 1, math.floor(score))
  keep(ends - now_ms(), false, redis.call('PTTL', lock))
  redis.call('ZADD', holders, string.format('%.0f', ends), mine)
  return tonumber(phase)
end

local waiters, is_over = redis.call('ZCARD', queue), not value or grace > 0 and left == 0
if waiters == 0 and (is_over or limit) and has_room(number) then
  tell_place_lost()
  admit(mine, number, lasts)
  enter()
  return tonumber(phase)
end
if is_over and waiters > 0 and not drop_stuck() then return {3} end
local others_wait = has_waited
if joins and not redis.call('ZSCORE', queue, me) then
  local is_full
  waiters, is_full = count_waiters()
  if is_full then
    return have_left and not tell_those_in_front(holder, left) and {3} or {2, waiters}
  end
  others_wait = waiters > 0
end

if not limit and not is_over then
  if waits then
    -- As in acquire.lua.
    if others_wait and holder and grace == 0 and not drop_stuck() then return {3} end
    join()
    set_mark(value, pttl, holder, grace)
    if have_left then tell_those_in_front(holder, left) end
  end
  holder = holder or string.sub(value, 1, SHOWN)
else
  find_hinted()
  if has_room(number) and not pass_over() then return {3} end
  if waits then
    join()
    leave_unanswered()
  end
  holder, left = let_in(lasts)
  if holder == false then return {3} end
  if holder == token then return tonumber(phase) end
  -- Those that waited have entered, or were dead.
  if redis.call('EXISTS', queue) == 0 and (not holder or inside > 0) and has_room(number) then
    admit(mine, number, lasts)
    enter()
    return tonumber(phase)
  end
  if inside > 0 and has_room(number) then left = hint_first(left) end
  granted = inside > 0 and '' or granted_now()
end
local in_front = waits and redis.call('ZRANK', queue, me) or -1
return {0, holder, left, time(), in_front, inside > 0 and who_keeps_out(number) or string.sub(granted, 2)}
