-- Takes a counted lock together with others, or joins its queue.
-- KEYS as in acquire.lua: all of them   ARGV as in acquire.lua, but:
-- ARGV[7] n and the limit of the caller, 0 for any number; then x and its weight, if it takes several permits
-- ARGV[8] 'try' if the server has refused a command that this script needs: the script tries all of them first
-- Returns what acquire.lua returns, or {10, how many permits it takes, how many the central limit allows} if it takes
-- more than those. All holders have the same fencing token. If an older client has granted the lock to
-- this token alone, the token becomes one of several holders. The holder in an answer is %holders|the least of their
-- limits|their fencing token|how many they are, and then |how many permits they have, if one of them has several. If
-- a central limit counts, see central.lua, that limit takes the place of the least one, and |how many permits they
-- have|c follows. What who_keeps_out returns takes the place of the time of the grant.
-- Idempotent by token, as acquire.lua.

--- @include "grace"
--- @include "least"

-- If the server refuses one of these, the answer names it, and nothing is changed.
if ARGV[8] then
  redis.call('ZADD', KEYS[5], 'XX', '0', '')
  redis.call('ZCARD', KEYS[5])
  redis.call('ZRANGE', KEYS[5], '0', '0')
  redis.call('ZREM', KEYS[5], '')
  redis.call('ZSCORE', KEYS[5], '')
end

-- The short way, for a lock without waiters that is free, or whose holders have the same limit. It has the same effect
-- as the long way below. This is one command for four keys. If none exists, the lock is free. If two exist, these are
-- the lock and its holders, and nobody waits. If one more exists, it may be the central limit.
local exist = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[5], KEYS[6])
local value, central_limit = false, nil
if exist == 1 or exist == 3 then
  central_limit = tonumber(redis.call('GET', KEYS[6]))
  if central_limit then exist = exist - 1 end
end
if exist > 0 then
  value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
  if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
  if value == '' and redis.call('EXISTS', KEYS[1]) == 0 then value = false end
end

if (ARGV[3] == 'join' or ARGV[3] == '0') and (exist == 0 or exist == 2 and value) then
  local number, inbox, lasts = string.sub(ARGV[7], 2), ARGV[4], ARGV[2] + 1
  if string.byte(inbox, -1) == 125 then inbox = string.gsub(inbox, '{%d+}$', '') end
  local member = ARGV[1] .. '|' .. number .. '|' .. inbox
  -- Numbers are text, because the server takes longer for a number, and for %.0f. The text has two parts, each of which
  -- is an integer on any server.
  local at = redis.call('TIME')
  local micros = at[2] + 0
  local ends = at[1] * 1000 + (micros - micros % 1000) / 1000 + lasts
  local rest = ends % 1000000000
  ends = string.format('%d%09d', (ends - rest) / 1000000000, rest)
  -- If the clock must be raised, the long way draws another fencing token.
  local is_too_heavy = central_limit and (tonumber(string.match(number, 'x(%d+)')) or 1) > central_limit
  local fence = not value and not is_too_heavy and redis.call('INCR', KEYS[3])
  if fence and fence >= (ARGV[6] ~= '' and tonumber(ARGV[6]) or LEAST) then
    local px = lasts + GRACE + (lasts - lasts % 3) / 3
    px = string.format(px < 1000000000 and '%d' or '%.0f', px)
    rest = fence % 1000000000
    -- For scripts that do not know weights, a caller with several permits has the limit 1.
    local least = string.find(number, 'x', 1, true) and '1' or number
    local by_all = string.format('%%holders|%s|%d%09d', least, (fence - rest) / 1000000000, rest)
    redis.call('SET', KEYS[1], by_all, 'PX', px)
    -- As in add_holders.lua. Without the member, the set does not exist, and cannot get an expiry.
    redis.pcall('ZADD', KEYS[5], ends, member)
    if redis.pcall('PEXPIRE', KEYS[5], px) ~= 1 then
      redis.call('DEL', KEYS[1], KEYS[5])
      redis.call('PEXPIRE', KEYS[1], px)
      redis.call('ZADD', KEYS[5], ends, member)
      -- The server allows now what it has just refused. The lock is deleted by now.
      redis.call('DEL', KEYS[5])
      return redis.error_reply('TRYAGAIN the server has refused to count a caller')
    end
    return fence
  end
  local prefix = value and '%holders|' .. number .. '|'
  if prefix and string.sub(value, 1, #prefix) == prefix then
    -- The long way removes holders whose lease is over. It runs if there is no room, or if the key has to last longer.
    local inside = redis.call('ZCARD', KEYS[5])
    if inside > 0 and (number == '0' or inside < (central_limit or tonumber(number))) and redis.call('PTTL', KEYS[1]) >= lasts + GRACE
      and not redis.call('ZSCORE', KEYS[5], member) then
      redis.call('ZADD', KEYS[5], ends, member)
      return tonumber(string.sub(value, #prefix + 1))
    end
  elseif prefix then
    -- One of the holders, or the caller, has several permits: read the members.
    local most, weight = string.match(number, '^(%d+)x?(%d*)$')
    local its_least, its_phase = string.match(value, '^%%holders|(%d+)|(%d+)$')
    if its_phase and (its_least == '1' or its_least == most) and most ~= '0' then
      local taken, members = tonumber(weight) or 1, redis.call('ZRANGE', KEYS[5], '0', '-1')
      local limit = central_limit or most + 0
      for i = 1, #members do
        local its_number, its_weight = string.match(members[i], '|(%d+)x?(%d*)|')
        taken = its_number == most and members[i] ~= member and taken + (tonumber(its_weight) or 1) or limit + 1
      end
      local has = taken <= limit and #members > 0 and redis.call('PTTL', KEYS[1]) or 0
      if has >= lasts + GRACE then
        if weight ~= '' and its_least ~= '1' then
          redis.call('SET', KEYS[1], '%holders|1|' .. its_phase, 'PX', string.format('%.0f', has))
        end
        redis.call('ZADD', KEYS[5], ends, member)
        return tonumber(its_phase)
      end
    end
  end
end

local lock, queue, clock, claim, holders, permits = unpack(KEYS)
local token, ttl, how, inbox, at_most, floor, kind = unpack(ARGV)
local leaves = false
--- @include "me" (token, ttl, inbox, kind)
--- @include "mine" (token, inbox, kind)
--- @include "claim"
--- @include "shown"
--- @include "time"
--- @include "parse"
--- @include "without_grace"
--- @include "set_mark" (lock)
--- @include "granted_now"
--- @include "asks" (how)
--- @include "evict" (queue)
--- @include "evict_stalled" (lock, queue, claim, inbox)
--- @include "central" (permits)
--- @include "counted" (holders, permits)
--- @include "read_holders" (lock, queue, holders, permits, inbox)
--- @include "has_room" (holders, permits)
--- @include "extend_counted" (lock, holders)
--- @include "add_holders" (lock, clock, claim, holders, permits, floor)
--- @include "admit_waiters" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
--- @include "who_keeps_out" (queue, holders, permits)
--- @include "notify_place_lost" (lock, how, inbox, token)
--- @include "count_waiters" (lock, queue, token, leaves, at_most)
--- @include "notify_front" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
--- @include "enqueue" (lock, queue, how, inbox, token, me)
--- @include "hinted" (queue, claim, holders, permits, inbox)
--- @include "pass_over" (lock, queue, claim, holders, permits, inbox)

local lasts, weight = tonumber(ttl), weight_of(mine)
if has_waited then lasts = math.min(lasts, CLAIM) end

local holder, grace, granted = parse(value)
local pttl = value and redis.call('PTTL', lock) or 0
local left = without_grace(pttl, grace)
if holder == token then
  redis.call('ZREM', queue, me)
  admit(mine, number, weight, math.max(lasts, left))
  add_holders()
  if admit_waiters(lasts) == false then return {3} end
  return tonumber(phase)
end
if not holder and not read_holders(value) then return {3} end
local score = limit and redis.call('ZSCORE', holders, mine)
if score then
  redis.call('ZREM', queue, me)
  local ends = math.max(now_ms() + lasts + 1, math.floor(score))
  extend_counted(ends - now_ms(), false, redis.call('PTTL', lock))
  redis.call('ZADD', holders, string.format('%.0f', ends), mine)
  return tonumber(phase)
end

-- Its process gives back a place that it may have.
if weight > 1 and weight > allowed(number) then return {10, weight, allowed(number)} end

local waiters, is_over = redis.call('ZCARD', queue), not value or grace > 0 and left == 0
if waiters == 0 and (is_over or limit) and has_room(number, weight) then
  notify_place_lost()
  admit(mine, number, weight, lasts)
  add_holders()
  return tonumber(phase)
end
if is_over and waiters > 0 and not evict_stalled() then return {3} end
local others_wait = has_waited
if joins and not redis.call('ZSCORE', queue, me) then
  local is_full
  waiters, is_full = count_waiters()
  if is_full then
    return have_left and not notify_front(holder, left) and {3} or {2, waiters}
  end
  others_wait = waiters > 0
end

if not limit and not is_over then
  if waits then
    -- As in acquire.lua.
    if others_wait and holder and grace == 0 and not evict_stalled() then return {3} end
    enqueue()
    set_mark(value, pttl, holder, grace)
    if have_left then notify_front(holder, left) end
  end
  holder = holder or string.sub(value, 1, SHOWN)
else
  find_hinted()
  if has_room(number, weight) and not pass_over() then return {3} end
  if waits then
    enqueue()
    leave_unanswered()
  end
  holder, left = admit_waiters(lasts)
  if holder == false then return {3} end
  if holder == token then return tonumber(phase) end
  -- The waiters have entered, or were dead.
  if redis.call('EXISTS', queue) == 0 and (not holder or inside > 0) and has_room(number, weight) then
    admit(mine, number, weight, lasts)
    add_holders()
    return tonumber(phase)
  end
  if inside > 0 and has_room(number, weight) then left = hint_first(left) end
  granted = inside > 0 and '' or granted_now()
end
local in_front = waits and redis.call('ZRANK', queue, me) or -1
return {0, holder, left, time(), in_front, inside > 0 and who_keeps_out(number, weight) or string.sub(granted, 2)}
