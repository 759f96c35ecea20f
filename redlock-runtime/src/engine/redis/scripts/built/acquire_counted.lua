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

-- The key of a marked lock, and of a counted lock, outlives its lease by this time, in ms: until the head of the queue
-- has asked, no other client finds it free.
local GRACE = 100
-- No fencing token is less, unless the clock has lost its data. In us since 1970: a time long before this one.
local LEAST = 1000000000000000

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
-- The member of the caller in the queue: see read.lua.
--- @with token, ttl, inbox, kind
local me = token .. '|' .. ttl .. '|' .. inbox .. (kind == '' and '' or '|' .. kind)
-- The limit of the caller, and its member among the holders: see counted.lua.
--- @with token, inbox, kind
-- Returns the limit of a waiter of this kind (1 for an exclusive waiter, 0 for any number), its weight, and both as
-- they are written in its member among the holders: see counted.lua.
local function number_of(its_kind)
  local label, its_number, its_weight = string.match(its_kind, '^n((%d+)x?(%d*))$')
  return tonumber(its_number) or 1, tonumber(its_weight) or 1, label or '1'
end
-- Returns an inbox without its tag: in a Cluster, it ends with the tag of a slot, which changes when that slot moves.
local function without_tag(inbox)
  return string.byte(inbox, -1) == 125 and string.gsub(inbox, '{%d+}$', '') or inbox
end
local number, _, label = number_of(kind)
local mine = token .. '|' .. label .. '|' .. without_tag(inbox)
-- A granted waiter has to claim its lock by a renewal within this time, in ms, so a stuck waiter costs the others no
-- more. It is text, because the server takes longer for a number among the arguments of a command.
local CLAIM = '1000'
-- No token is longer. The value of a foreign client may be of any length, and the server takes 10 ms for each megabyte
-- that a script reads. So a script reads one byte more, which shows that the value is longer, and returns this many.
local SHOWN = 512
-- Returns the time of the server in us, as text: exact, and cheaper than formatting a number. It is one time for the
-- whole script. Sets `seconds` to its seconds.
local now, seconds
local function time()
  if not now then
    local seconds_and_micros = redis.call('TIME')
    local micros = seconds_and_micros[2]
    -- Nine in ten times it has six digits. Each new text costs as much as half a command.
    if #micros < 6 then micros = string.sub('00000' .. micros, -6) end
    seconds = seconds_and_micros[1]
    now = seconds .. micros
  end
  return now
end
-- Splits the value of a lock. It is the token of its holder; then `=` and the time of the grant in seconds, if the
-- holder had to wait; and an exclamation mark once others have waited for it. So the holder's release looks for waiters
-- only if there are some.

local TOKEN = '^([%w_-]+@[%w._-]+:%d+[%w/_:.-]*)(=?%d*)(!?)$'

-- Returns the token in the value of a lock, the grace of its key, which is 0 without a mark, and the time of its grant
-- with the `=`, or ''. Returns nil, 0, '' for the value of a foreign client, which is never marked.
local function parse(value)
  if not value or string.byte(value, 23) ~= 64 or #value > SHOWN then return nil, 0, '' end
  local holder, granted, mark = string.match(value, TOKEN)
  return holder, mark == '!' and GRACE or 0, granted or ''
end
-- Returns the rest of the lease for a PTTL in ms. If it is negative, the key does not expire, or does not exist.
local function without_grace(pttl, grace)
  return pttl < 0 and pttl or math.max(pttl - grace, 0)
end
-- Marks the lock with this value, holder and grace, unless it is marked already, or a foreign client's.
--- @with lock
local function set_mark(value, pttl, holder, grace)
  if not holder or grace > 0 then return end
  if pttl < 0 then return redis.call('SET', lock, value .. '!') end
  -- As text, because the server takes longer for a number than for the rest of the mark.
  redis.call('SET', lock, value .. '!', 'PX', string.format('%d', pttl + GRACE))
end
-- Returns what follows the token in the value of a lock that is granted now, to a caller that has waited for it.
local function granted_now()
  time()
  return '=' .. seconds
end
-- Says how the caller asks for a lock.
-- how: see acquire.lua
--- @with how
local waits = how ~= '0' and how ~= 'late'
local joins = how == 'join' or how == 'join_again'
local has_waited = waits and not joins
-- Removes all waiters of stuck processes from the queue.
--- @with queue
-- How many members one command reads.
local TOGETHER = 250
-- Returns token, ttl, inbox and kind of a waiter ('' for one that draws a fencing token); nil for a malformed member.
-- The queue of a lock is a sorted set that exists while the lock has waiters. Member: token|ttl in ms|inbox, and then
-- |unfenced for a waiter that draws no fencing token, or |once for a waiter whose body runs once, which asks again when
-- a push grants it the lock, or |n5 for a waiter that allows five at a time, itself included, or |n0 for one that
-- allows any number. Score: order of arrival.
local MEMBER = '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$'
local function read(member)
  return string.match(member or '', MEMBER)
end

-- How many members one call reads.
local LOOKED_AT = 10000

-- Whether waiters have left the queue, and those behind them may have received no push.
local have_left = false

-- `stuck` has the inboxes of the processes as its keys, without tags. Returns a table with the inboxes of the removed
-- waiters as its keys, with tags; or false if there may be more of them.
local function evict(stuck)
  local members, gone, inboxes = redis.call('ZRANGE', queue, 0, LOOKED_AT - 1), {}, {}
  for _, member in ipairs(members) do
    local _, _, inbox = read(member)
    if inbox and stuck[without_tag(inbox)] then
      gone[#gone + 1] = member
      inboxes[inbox] = true
    end
  end
  for i = 1, #gone, TOGETHER do
    redis.call('ZREM', queue, unpack(gone, i, math.min(i + TOGETHER - 1, #gone)))
  end
  have_left = have_left or #gone > 0
  return (#gone <= LOOKED_AT / 2 or #members < LOOKED_AT) and inboxes
end
-- Removes the waiters of a process that let its lease end without a release: it is stuck.
--- @with lock, queue, claim, inbox
-- Publishes to an inbox, which is a channel.

-- Returns an error, as redis.pcall does.
local function notify(inbox, text)
  return redis.pcall('PUBLISH', inbox, text)
end

-- The process that got the lock last has let its lease end. It is stuck, and each of its waiters would get a claim, so
-- all of them leave the queue. The push tells a process that was only slow that its waiters have lost their places. The
-- process of the caller is not stuck.
-- Returns false if there may be more of these waiters: then the caller has to call again.
local function evict_stalled()
  local stuck = redis.call('GET', claim)
  -- This is a hint, as in hinted.lua: its waiter has no lease.
  if not stuck or string.find(stuck, '|', 1, true) then return true end
  if stuck ~= inbox then
    if not evict({[without_tag(stuck)] = true}) then return false end
    notify(stuck, 'gone||0|0||' .. lock)
  end
  redis.call('DEL', claim)
  return true
end
-- The central limit: how many permits an operator has set for a lock. It counts in place of the number of each caller
-- with permits. An exclusive caller still allows nobody beside itself, and a reader any number.
-- permits: the key of the central limit, which has no expiry. If it does not exist, the numbers of the callers count
--- @with permits
local central = nil

-- Returns how many may be inside if the callers demand this number.
local function allowed(number)
  if number < 2 then return number end
  if central == nil then central = permits and tonumber(redis.call('GET', permits)) or false end
  return central or number
end
-- The state of a counted lock, which several callers hold at a time.
-- Each caller has a limit, which says how many it allows inside at a time, itself included: 1 for an exclusive caller,
-- 0 for any number. A caller may enter if fewer are inside than its limit and each of their limits allow. A caller that
-- takes several permits counts for as many.
--
-- holders: a sorted set. Member: token|limit|inbox, without a tag; 10x3 in place of the limit for 3 of 10 permits.
--         Score: the end of its lease, in ms of the server's time, and half a ms more if its process lets it end. An
--         exclusive caller that does not know of holders leaves the key out, and calls again if the lock has some
-- The value of the lock is %holders|the least of their limits|their fencing token. All holders of a phase share one
-- fencing token. A phase lasts from the first caller that enters a free lock until the last one leaves. The key
-- outlives the last lease by the grace. While a holder has several permits, the value has the limit 1. Scripts that do
-- not know weights then admit nobody, and scripts that do know them read the members. The value and the members have
-- the limits of the callers, also if a central limit counts: see central.lua.
--- @with holders, permits
-- Reads the limits and weights of the holders from their members: see counted.lua.

-- Returns the smaller limit. Zero allows any number, so it is larger than all others.
local function least(one, other)
  if one == 0 then return other elseif other == 0 then return one end
  return math.min(one, other)
end

-- Returns the least of their limits, and how many permits they have beyond one each.
local function limits_of(members)
  local its_least, beyond = 0, 0
  for i = 1, #members do
    local its_number, its_weight = string.match(members[i], '|(%d+)x?(%d*)|')
    its_least = least(its_least, tonumber(its_number) or 1)
    beyond = beyond + (tonumber(its_weight) or 1) - 1
  end
  return its_least, beyond
end

-- The value of the lock; the limit in it, which is the least limit of a holder, or of one that has left, or 1 until the
-- members are read; the phase in it; how many are inside; and how many permits they have beyond one each.
local written, limit, phase, inside, extra = nil, nil, nil, 0, 0

local function read_limits()
  limit, extra = limits_of(redis.call('ZRANGE', holders, 0, -1))
end

local function now_ms()
  return string.sub(time(), 1, -4)
end

-- Returns how many permits a holder has.
local function weight_of(member)
  return tonumber(string.match(member, '|%d+x(%d+)|')) or 1
end

-- Returns the rank of the holder whose end makes room for this limit and weight, once the holders before it have left,
-- too.
local function makes_room(number, weight)
  if limit == 1 and number ~= 1 then read_limits() end
  local missing = inside + extra + weight - math.max(allowed(least(number, limit)), 1)
  -- The first holder that leaves makes room for one permit.
  if missing <= 1 then return 0 end
  -- The holder that leaves may have had the least limit. So the limits of those that stay count, beginning with the
  -- lease that ends last.
  local members = redis.call('ZRANGE', holders, 0, -1)
  local taken, most = weight, number
  for i = #members, 1, -1 do
    taken, most = taken + weight_of(members[i]), least(most, tonumber(string.match(members[i], '|(%d+)')) or 1)
    if most ~= 0 and taken > allowed(most) then return i - 1 end
  end
  return 0
end

-- Returns in how many ms there is room for this limit and weight, unless a holder renews or leaves.
local function left_for(number, weight)
  local at = makes_room(number, weight)
  local ends = redis.call('ZRANGE', holders, at, at, 'WITHSCORES')[2]
  return ends and math.max(math.ceil(ends - now_ms()), 0) or 0
end
-- Reads the holders, and removes those whose lease is over. If a lease ended without a release, the waiters of its
-- process leave, too, as in evict_stalled.lua.
-- Returns false if the caller has to call again.
--- @with lock, queue, holders, permits, inbox
-- The most members that one call reads, in a few ms. If there are more, the client calls again at once.
local MOST = 2000
local function read_holders(value)
  local its_limit, its_phase = string.match(value or '', '^%%holders|(%d+)|(%d+)$')
  if not its_limit then return true end
  -- The caller has not sent the key of the holders.
  if not holders then return false end
  written, limit, phase = value, tonumber(its_limit), its_phase
  local size = 1
  -- If there are more, the rest counts as inside until the next call.
  for _ = 1, MOST / TOGETHER do
    local found, over, stuck = redis.call('ZRANGE', holders, 0, size - 1, 'WITHSCORES'), {}, {}
    for i = 1, #found, 2 do
      if tonumber(found[i + 1]) > tonumber(now_ms()) then break end
      over[#over + 1] = found[i]
      local its_inbox = string.match(found[i], '|([^|]*)$')
      -- A member of another form has no inbox.
      if its_inbox and found[i + 1] % 1 == 0 and its_inbox ~= without_tag(inbox) then stuck[its_inbox] = true end
    end
    if next(stuck) then
      local inboxes = evict(stuck)
      if not inboxes then return false end
      for its_inbox in pairs(inboxes) do notify(its_inbox, 'gone||0|0||' .. lock) end
    end
    if #over > 0 then redis.call('ZREM', holders, unpack(over)) end
    if #over < size then break end
    size = TOGETHER
  end
  inside = redis.call('ZCARD', holders)
  return true
end
-- Admits callers to a counted lock, and says whether there is room for more.
--- @with holders, permits

-- The admitted callers that are not written yet, the least of their limits, and the permits that they have beyond one
-- each.
local entering, entering_least, entering_extra = {}, 0, 0

local function has_room(number, weight)
  if inside == 0 then return true end
  if limit ~= 0 and (number == 0 or limit < number) and inside > #entering / 2 then
    -- A holder had a smaller limit than this caller, or several permits. It may have left. If nobody is written yet,
    -- the members are those of a lock that was deleted.
    read_limits()
    limit, extra = least(limit, entering_least), extra + entering_extra
  end
  local most = allowed(least(number, limit))
  return most == 0 or inside + extra + weight <= most
end

local function admit(member, number, weight, lasts)
  if inside == 0 then limit, extra = 0, 0 end
  limit, extra, entering_extra = least(limit, number), extra + weight - 1, entering_extra + weight - 1
  inside, entering_least = inside + 1, least(entering_least, number)
  entering[#entering + 1] = string.format('%.0f', now_ms() + lasts + 1)
  entering[#entering + 1] = member
  entering.lasts = math.max(entering.lasts or 0, lasts + 1)
end
-- Makes the key of a counted lock last for so many ms, and a third more: so it changes seldom, and its watchers receive
-- few pushes. The expiry of the holders comes first: if access rules forbid it, the set must not end before the key.
--- @with lock, holders
local function extend_counted(lasts, value, has)
  local px = lasts + GRACE
  if not value and has >= px then return end
  px = string.format('%.0f', math.max(px + math.floor(lasts / 3), has))
  if has > 0 then redis.call('PEXPIRE', holders, px) end
  if value then redis.call('SET', lock, value, 'PX', px) else redis.call('PEXPIRE', lock, px) end
  return px
end
-- Puts the admitted callers inside. If the script fails in between, the lock counts nobody, and is free to all of us.
--- @with lock, clock, claim, holders, permits, floor
-- Draws a fencing token.
-- clock: the key of the clock of fencing tokens, one per server
-- floor: a clock below it is raised to the server's time; empty for LEAST. A floor that ends with .5 is a fencing token
--         that the caller has seen, and a half: the clock is raised above it, even above the server's time.

-- A raised clock stays this far below the server's time, in us. This leaves room for reserve.lua.
local BEHIND = 10000

-- Returns a fencing token above all earlier ones. While a server keeps its data, counting is enough, and TIME with each
-- grant would cost a quarter more. A fencing token that was lost in a restart, a failover or a flush is below the time,
-- because no server grants a million times in a second. So a clock that is missing starts at the time, and one that is
-- below the floor is raised. Exact in a double until the year 2255.
local function next_fence(clock, floor)
  local fence = redis.call('INCR', clock)
  local least = tonumber(floor) or LEAST
  if fence < least then
    local now = tonumber(time())
    if fence > LEAST then now = now - BEHIND end
    if least % 1 > 0 then now = math.max(now, least + 0.5) end
    if fence < now then
      fence = now
      -- In two parts, each of which is an integer on any server, because %.0f takes longer.
      local rest = fence % 1000000000
      redis.call('SET', clock, string.format('%d%09d', (fence - rest) / 1000000000, rest))
    end
  end
  return fence
end
local function add_holders()
  if #entering == 0 then return end
  local is_first = inside == #entering / 2
  if is_first then phase = string.format('%.0f', next_fence(clock, floor)) end
  local value = '%holders|' .. (extra > 0 and 1 or limit) .. '|' .. phase
  local px = extend_counted(entering.lasts, value ~= written and value, is_first and 0 or redis.call('PTTL', lock))
  -- Deletes what an earlier phase has left, if the lock was deleted.
  if is_first then redis.call('DEL', holders, claim) end
  -- One that is inside already keeps its lease: it may have entered without the queue, where its process could not notify, and left
  -- its place behind.
  local added = type(redis.pcall('ZADD', holders, 'NX', unpack(entering))) ~= 'table'
  -- Without its member, a caller is not inside. Without an expiry, the set would stay forever.
  local is_undone = is_first and not (added and type(redis.pcall('PEXPIRE', holders, px)) ~= 'table')
  if is_undone then
    redis.call('DEL', lock, holders)
    -- This or the next one runs into the same error again.
    redis.call('PEXPIRE', lock, px)
  end
  if not added then redis.call('ZADD', holders, 'NX', unpack(entering)) end
  if is_undone then
    -- The server allows now what it has just refused. The lock is deleted by now.
    redis.call('DEL', holders)
    error({err = 'TRYAGAIN the server has refused to count a caller'})
  end
  written, entering, entering_least, entering_extra = value, {}, 0, 0
end
-- Admits the waiters in front of the queue, as long as they may be inside together: each for a claim, and the caller
-- for `lasts`. An exclusive waiter gets the lock if nobody is inside. Dead and malformed waiters in front leave the
-- queue.
-- mine: the member of the caller among the holders   number: how many it allows
--- @with lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number
-- Returns the waiters to notify.
--- @with queue
local function first_two()
  return redis.call('ZRANGE', queue, '0', '1')
end
-- Returns the waiters that may have received a push about the holder's claim: the first two and, if these are of one
-- process, the first one of another process.
--- @with queue
-- Returns the first waiter that is of another process than the first two.
--- @with queue
local function first_behind(their_inbox)
  local its, from, to = '|' .. their_inbox, 2, 5
  while from <= TOGETHER do
    local members = redis.call('ZRANGE', queue, from, to)
    for i = 1, #members do
      -- Most members are of that process. A pattern takes longer than the rest of the call.
      local member = members[i]
      local _, ends = string.find(member, its, 1, true)
      local behind = ends and string.byte(member, ends + 1)
      if not ends or behind and behind ~= 124 then
        local _, _, inbox = read(member)
        if inbox and inbox ~= their_inbox then return member end
      end
    end
    if #members <= to - from then return end
    -- Often the waiter is among the first few, and each member that is read costs a third of a command.
    from, to = to + 1, math.min(to * 4, TOGETHER)
  end
end
local function notified_waiters()
  local waiters = first_two()
  local _, _, first = read(waiters[1])
  local _, _, second = read(waiters[2])
  if first and first == second then waiters[3] = first_behind(first) end
  return waiters
end
-- Says whether a waiter is alive: its inbox has a subscriber.
-- token: the caller   leaves: whether the caller leaves the queue, with any older place of its own under another tag of
-- its inbox
--- @with lock, token, leaves
-- Returns how many clients subscribe to an inbox. The reply of PUBLISH also counts clients that subscribe to all
-- channels by pattern.
local function listeners(inbox)
  return redis.call('PUBSUB', 'NUMSUB', inbox)[2]
end

-- A process has one inbox for all its waiters, so each inbox is checked once.
local heard = {}
local function is_heard(next_token, next_inbox)
  if heard[next_inbox] == nil then
    heard[next_inbox] = listeners(next_inbox, next_token, lock) > 0
  end
  return heard[next_inbox]
end

local function is_there(next_token, next_inbox)
  if next_token == token then return not leaves end
  return is_heard(next_token, next_inbox)
end
-- Gives the lock to a waiter that has left the queue, and notifies it. Returns for how many ms it has the lock.
--- @with lock, queue, clock, claim, floor, inbox
-- Publishes as notify.lua, but raises an error, as redis.call does.
local function must_notify(inbox, text)
  redis.call('PUBLISH', inbox, text)
end
-- Publishes to the first two waiters, because one may be dead, how long the lease in front of them lasts: then they ask
-- again. The claimant is the inbox of the waiter that was granted the lock. Its process receives the grant, and needs
-- no hint. If both waiters are of that process, the first waiter of another process receives the push, because a stuck
-- process does not ask. A process that hands a lock to itself, with this inbox, is not stuck.
--- @with lock, queue, inbox
local function notify_waiters(members, lasts, at, claimant)
  local others, its = members, '|' .. claimant .. '|'
  if claimant ~= '' then
    others = {}
    for _, member in ipairs(members) do
      if not string.find(member .. '|', its, 1, true) then others[#others + 1] = member end
    end
    if #members == 2 and #others == 0 and claimant ~= inbox then
      others[1] = first_behind(claimant)
    end
  end
  if #others == 0 then return end
  local what = '|' .. lasts .. '|' .. at .. '||' .. lock
  for _, member in ipairs(others) do
    local next_token, _, next_inbox = read(member)
    if next_token then notify(next_inbox, 'next|' .. next_token .. what) end
  end
end
-- Finds the followers of a grant: the waiters behind the new holder, as far as they are of its process, have its ttl,
-- and draw no fencing token either. Its process passes the lock on to them in this order, without a request for each.
--- @with queue

-- Returns the 22 random characters of each token, of 31 followers at most. `rest`: what is behind the token in the
-- member of the new holder.
local function followers_of(rest, first, second)
  if string.sub(first or '', -#rest) ~= rest then return '' end
  local members = {first}
  if string.sub(second or '', -#rest) == rest then members = redis.call('ZRANGE', queue, '0', '30') end
  local count, find, sub, byte = 0, string.find, string.sub, string.byte
  for i = 1, #members do
    -- A new text takes longer than a search, and a table that grows takes longer than one that exists.
    local member = members[i]
    local _, ends = find(member, rest, 24, true)
    if ends ~= #member or byte(member, 23) ~= 64 then break end
    members[i], count = sub(member, 1, 22), i
  end
  return table.concat(members, '', 1, count)
end
-- Sets the lock to this value for so many ms, and marks it if there are waiters, or if it had a `grace` before. Returns
-- the mark. Writes the claim if there are waiters, because the lock itself expires soon after a lease that ends without
-- a release.
-- claim: a key that exists only while the lock has waiters: the inbox of the waiter that got the lock last
--- @with lock, claim
-- How long a queue lasts after the last request, in ms, as text. The queue of crashed waiters expires; live waiters ask
-- again much sooner.
local QUEUE_TTL = '60000'
local function set_lock(next_value, lasts, grace, waiters, next_inbox)
  local mark = ''
  if #waiters > 0 or grace and grace > 0 then
    lasts, mark = lasts + GRACE, '!'
  end
  redis.call('SET', lock, next_value .. mark, 'PX', string.format('%d', lasts))
  if #waiters > 0 then redis.pcall('SET', claim, next_inbox, 'PX', QUEUE_TTL) end
  return mark
end
local function grant_one(next_token, next_ttl, next_inbox, kind, waiters)
  local fence = kind == '' and string.format('%.0f', next_fence(clock, floor)) or '0'
  local lasts = math.min(next_ttl, CLAIM)
  local mark, now = set_lock(next_token .. granted_now(), lasts, nil, waiters, next_inbox), time()
  local rest = kind == 'unfenced' and '|' .. next_ttl .. '|' .. next_inbox .. '|unfenced'
  local followers = rest and followers_of(rest, waiters[1], waiters[2]) or ''
  notify_waiters(waiters, lasts, now, next_inbox)
  -- Behind the hints: a server writes first to the client that it has published to last.
  local told = notify(next_inbox,
    'granted|' .. next_token .. '|' .. fence .. '|' .. now .. '|' .. mark .. followers .. '|' .. lock)
  if type(told) == 'table' then
    -- Access rules have changed, and no waiter receives pushes any more. So the lock becomes free, and the caller gets
    -- the same error.
    redis.call('DEL', lock)
    must_notify(next_inbox, '')
  end
  return lasts
end
-- Notifies each of these waiters when there is room for it: the times differ. The members are the first two and, if
-- these are of one process, which may be stuck, the first of another process. `score`: the end of the lease of a holder
-- that has left; a waiter that was to enter before that end receives nothing.
--- @with lock, queue, holders, permits, inbox
local function notify_each(members, score)
  for _, member in ipairs(members) do
    local _, _, _, its_kind = read(member)
    if its_kind then
      local left = left_for(number_of(its_kind))
      if not score or math.ceil(score - now_ms()) >= left then notify_waiters({member}, left, time(), '') end
    end
  end
end

-- The most waiters that one call admits.
local IN_ONE = 250

-- Returns the holder for an answer: the value of the lock, and how many are inside. If one of them has several permits,
-- also how many permits they have. If a central limit counts, the value has that limit, and `c` follows both.
local function who_is_inside()
  if limit == 1 then read_limits() end
  local counts = allowed(limit)
  local who = '%holders|' .. counts .. '|' .. phase .. '|' .. inside
  if central and counts > 0 then return who .. '|' .. inside + extra .. '|c' end
  return extra == 0 and who or who .. '|' .. inside + extra
end

-- A waiter that takes more permits than the central limit allows leaves. Its process asks again, and learns why.
local refused = {}
local function is_refused(its_inbox, its_kind)
  local its_number, its_weight = number_of(its_kind)
  if its_weight == 1 or its_weight <= allowed(its_number) then return false end
  if not refused[its_inbox] then notify(its_inbox, 'gone||0|0||' .. lock) end
  refused[its_inbox] = true
  return true
end

-- Returns what `grant_next` returns: the caller's token, if the caller is inside, or may take the lock for itself
-- alone; the token of a waiter that got the lock alone, and for how many ms; nil if nobody is inside and the queue is
-- empty; false if the caller has to call again. Otherwise returns who_is_inside(), and in how many ms there is room for
-- the caller. The third value says whether the new first two waiters were notified.
local function admit_waiters(lasts)
  if not holders then return false end
  local looked, size, granted, is_inside, is_over = 0, 2, {}, false, false
  while looked < MOST and not is_over do
    local members, gone = redis.call('ZRANGE', queue, 0, size - 1), 0
    for i, member in ipairs(members) do
      local next_token, next_ttl, next_inbox, its_kind = read(member)
      if next_token and is_there(next_token, next_inbox) and not is_refused(next_inbox, its_kind) then
        local its_number, its_weight, its_label = number_of(its_kind)
        is_over = not has_room(its_number, its_weight)
        if is_over then break end
        if its_number == 1 then
          redis.call('ZPOPMIN', queue, i)
          local waiters = first_two()
          if #waiters == 0 then redis.call('DEL', claim) end
          if next_token == token then return token, waiters end
          return next_token, grant_one(next_token, next_ttl, next_inbox, its_kind, waiters), true
        end
        is_over = #granted == IN_ONE
        if is_over then
          -- That waiter asks at once, and its call admits the next ones.
          notify(next_inbox, 'free|' .. next_token .. '|0|0||' .. lock)
          break
        end
        if next_token == token then
          is_inside = true
          admit(mine, its_number, its_weight, lasts)
        else
          admit(next_token .. '|' .. its_label .. '|' .. without_tag(next_inbox), its_number, its_weight, math.min(next_ttl, CLAIM))
          granted[#granted + 1] = {next_token, next_inbox}
        end
      end
      gone = i
    end
    if gone > 0 then redis.call('ZPOPMIN', queue, gone) end
    have_left = have_left or gone > 0
    add_holders()
    is_over = is_over or #members < size
    looked, size = looked + gone, TOGETHER
  end
  if have_left and inside > 0 then
    local waiters = first_two()
    local _, _, first = read(waiters[1])
    notify_each(first == inbox and waiters or notified_waiters())
  end
  for _, its in ipairs(granted) do
    notify(its[2], 'granted|' .. its[1] .. '|' .. phase .. '|' .. time() .. '||' .. lock)
  end
  if is_inside then return token end
  if not is_over then return false end
  if inside == 0 then return nil end
  return who_is_inside(), left_for(number, weight_of(mine)), have_left
end
-- Returns who keeps out a caller of this limit and weight: the member of the holder whose end makes room; and, if there
-- is room, the member of the first waiter, which the caller must not pass. '' for none.
--- @with queue, holders, permits
local function who_keeps_out(its_number, its_weight)
  local at = makes_room(its_number, its_weight)
  local holder = redis.call('ZRANGE', holders, at, at)[1] or ''
  local waiter = has_room(its_number, its_weight) and redis.call('ZRANGE', queue, '0', '0')[1] or ''
  return {string.sub(holder, 1, SHOWN), string.sub(waiter, 1, SHOWN)}
end
-- Notifies the process of the caller that its place was lost. The queue was deleted (FLUSHALL, DEL, eviction), or only
-- this waiter has left it, with a grant. The other waiters of its inbox may have lost their places, too, and only one
-- of them asks.
--- @with lock, how, inbox, token
local function notify_place_lost()
  if not has_waited or how == 'rejoin' then return end
  notify(inbox, 'gone|' .. token .. '|0|0||' .. lock)
end
-- Counts the waiters, and removes dead ones from a full queue.
-- at_most: how many may wait
--- @with lock, queue, token, leaves, at_most

-- How many waiters of a full queue are checked. They are neighbors, so a refused caller costs little.
local LOOKED_AT_WHEN_FULL = 16

-- Returns how many wait, and whether the queue is full. A waiter of a full queue whose inbox has no subscriber is dead,
-- and leaves: otherwise, it would keep others from a lock that may be free, for as long as the queue exists.
local function count_waiters()
  local waiters, most = redis.call('ZCARD', queue), tonumber(at_most)
  if waiters < most then return waiters, false end
  local from = time() % math.max(waiters - LOOKED_AT_WHEN_FULL + 1, 1)
  local dead = {}
  for _, member in ipairs(redis.call('ZRANGE', queue, from, from + LOOKED_AT_WHEN_FULL - 1)) do
    local its_token, _, its_inbox = read(member)
    if not its_token or not is_heard(its_token, its_inbox) then dead[#dead + 1] = member end
  end
  if #dead > 0 then
    waiters = waiters - redis.call('ZREM', queue, unpack(dead))
    have_left = true
  end
  return waiters, waiters >= most
end
-- Notifies the waiters that are in front now, after others have left. Returns false if the caller has to call again.
--- @with lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number
local function notify_front(holder, left)
  if inside > 0 then return admit_waiters() ~= false end
  -- A foreign client releases without a push, so 0: see release.lua.
  notify_waiters(notified_waiters(), holder and math.max(left, 0) or 0, time(), '')
  return true
end
-- Makes sure that the caller, `me`, has a place in the queue.
--- @with lock, queue, how, inbox, token, me
-- Returns whether access rules allow to publish to this inbox. From Redis 7.0 on.
local function may_notify(inbox, text)
  return redis.acl_check_cmd('PUBLISH', inbox, text)
end
-- Puts the caller, `me`, into the queue, behind these waiters, also if the clock was set back. If the server refuses
-- the expiry of the queue, the caller leaves it again: otherwise, the queue would stay forever.
--- @with queue, me
local function add_waiter(waiters)
  redis.call('ZADD', queue, time(), me)
  if type(redis.pcall('PEXPIRE', queue, QUEUE_TTL)) == 'table' then
    redis.call('ZREM', queue, me)
    -- Runs into the same error again.
    redis.call('PEXPIRE', queue, QUEUE_TTL)
  end
  if waiters == 0 or redis.call('ZRANK', queue, me) == waiters then return end
  local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', queue, string.format('%.0f', last + 1), me)
end
local function enqueue()
  if not redis.call('ZSCORE', queue, me) then
    notify_place_lost()
    add_waiter(redis.call('ZCARD', queue))
  else
    redis.call('PEXPIRE', queue, QUEUE_TTL)
    -- Raises an error if access rules have changed, and this waiter would not receive its grant. From Redis 7.0 on.
    if redis.acl_check_cmd and not may_notify(inbox, '') then
      must_notify(inbox, '')
    end
  end
end
-- Finds out whether the first waiter answers. It keeps out the waiters behind it that have room beside the holders, and
-- its process may be stopped. So a caller that has room sends it a hint. The first waiter then has to ask within a
-- claim, or all waiters of its process leave the queue. The key of the claim has the time of the hint, in ms of the
-- server's time, and the member of the first waiter: no inbox contains `|`. A waiter that asks makes the queue last for
-- QUEUE_TTL again, in any version of these scripts. While the first waiter has not answered, a request of another
-- process makes the queue last for a claim less.
--- @with queue, claim, holders, permits, inbox
local hinted

local function find_hinted()
  local since, member = string.match(limit and redis.call('GET', claim) or '', '^(%d+)|(.+)$')
  local _, _, its_inbox = read(member)
  if not its_inbox then return end
  local waited = now_ms() - since
  local answers = without_tag(its_inbox) == without_tag(inbox)
    or waited < 0 or redis.call('PTTL', queue) > QUEUE_TTL - CLAIM / 2 - waited
  hinted = {member = member, inbox = its_inbox, waited = waited, answers = answers}
end

-- Called after `enqueue`.
local function leave_unanswered()
  if hinted and not hinted.answers then
    redis.call('PEXPIRE', queue, math.max(QUEUE_TTL - CLAIM - hinted.waited, QUEUE_TTL / 2))
  end
end
-- Passes over a first waiter that keeps out a caller with room, and does not answer: see hinted.lua.
--- @with lock, queue, claim, holders, permits, inbox

-- Removes the waiters of its process. Returns false if the caller has to call again.
local function pass_over()
  if not hinted or hinted.answers or hinted.waited < CLAIM + 0 or redis.call('ZRANGE', queue, 0, 0)[1] ~= hinted.member then
    return true
  end
  local inboxes = evict({[without_tag(hinted.inbox)] = true})
  if not inboxes then return false end
  redis.call('DEL', claim)
  hinted = nil
  for its_inbox in pairs(inboxes) do notify(its_inbox, 'gone||0|0||' .. lock) end
  return true
end

-- Sends the first waiter a hint, for a caller that did not get in. Returns after how many ms the caller asks again: when
-- a lease ends after `left` ms, too, because the key ends soon after the last lease, and anybody may take it then.
local function hint_first(left)
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  local first_token, _, its_inbox = read(first)
  if not its_inbox or without_tag(its_inbox) == without_tag(inbox) then return left end
  if not hinted or hinted.member ~= first or hinted.waited >= CLAIM + 0 then
    local noted = redis.pcall('SET', claim, now_ms() .. '|' .. first, 'PX', QUEUE_TTL)
    if type(noted) == 'table' and noted.err then return left end
    hinted = {waited = 0}
    redis.call('PEXPIRE', queue, QUEUE_TTL - CLAIM)
    notify(its_inbox, 'next|' .. first_token .. '|0|' .. time() .. '||' .. lock)
  end
  return math.max(math.min(CLAIM - hinted.waited, left), 1)
end

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
