-- Takes a counted lock together with others, or joins its queue.
-- KEYS as in acquire.lua: all of them   ARGV as in acquire.lua, but:
-- ARGV[7] n and how many it allows, 0 for any number; behind it, for one that counts for several of them, x and how many
-- ARGV[8] 'try' where the server has refused a command that this needs: they are tried first
-- Returns what acquire.lua returns. The fencing token is that of all that are inside. One that has the lock alone, as an older version
-- of a client has granted it, is one of several from now on. The holder is %holders|the least that one of them allows|their fencing token|how many they are,
-- and behind that, where one of them counts for several, |how many permits they have; and in the place of the time of its grant stands what who_keeps_out returns.
-- Idempotent by token, as acquire.lua.

-- The key of a marked lock stays for this long after its lease, in ms: until the head of the queue has asked, no other
-- client finds it free. So does the key of a counted lock.
local GRACE = 100
-- No fencing token is less, unless the clock has lost its data: below all times of this age, in us.
local LEAST = 1000000000000000

-- Where one of these is refused, the answer names it, and nothing is changed.
if ARGV[8] then
  redis.call('ZADD', KEYS[5], 'XX', '0', '')
  redis.call('ZCARD', KEYS[5])
  redis.call('ZRANGE', KEYS[5], '0', '0')
  redis.call('ZREM', KEYS[5], '')
  redis.call('ZSCORE', KEYS[5], '')
end

-- The short way, for a lock that is free or in which those are that allow the same number, and for which nobody waits. Equals the
-- long way below.
-- One command for three keys. Without any, the lock is free; with two of them, the lock and its holders, others are inside. Nobody
-- waits then.
local exist = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[5])
local value = false
if exist > 0 then
  value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
  if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
  if value == '' and redis.call('EXISTS', KEYS[1]) == 0 then value = false end
end

if (ARGV[3] == 'join' or ARGV[3] == '0') and (exist == 0 or exist == 2 and value) then
  local number, inbox, lasts = string.sub(ARGV[7], 2), ARGV[4], ARGV[2] + 1
  if string.byte(inbox, -1) == 125 then inbox = string.gsub(inbox, '{%d+}$', '') end
  local member = ARGV[1] .. '|' .. number .. '|' .. inbox
  -- Numbers as text: the server takes longer over a number, and over %.0f. In two parts, each of which is an integer on any server.
  local at = redis.call('TIME')
  local micros = at[2] + 0
  local ends = at[1] * 1000 + (micros - micros % 1000) / 1000 + lasts
  local rest = ends % 1000000000
  ends = string.format('%d%09d', (ends - rest) / 1000000000, rest)
  -- One that must be raised is drawn once more below.
  local fence = not value and redis.call('INCR', KEYS[3])
  if fence and fence >= (ARGV[6] ~= '' and tonumber(ARGV[6]) or LEAST) then
    local px = lasts + GRACE + (lasts - lasts % 3) / 3
    px = string.format(px < 1000000000 and '%d' or '%.0f', px)
    rest = fence % 1000000000
    -- One that counts for several allows no other, to scripts that do not know that.
    local least = string.find(number, 'x', 1, true) and '1' or number
    local by_all = string.format('%%holders|%s|%d%09d', least, (fence - rest) / 1000000000, rest)
    redis.call('SET', KEYS[1], by_all, 'PX', px)
    -- As in add_holders.lua. Without the member there is nothing that could expire.
    redis.pcall('ZADD', KEYS[5], ends, member)
    if redis.pcall('PEXPIRE', KEYS[5], px) ~= 1 then
      redis.call('DEL', KEYS[1], KEYS[5])
      redis.call('PEXPIRE', KEYS[1], px)
      redis.call('ZADD', KEYS[5], ends, member)
      -- The server allows now what it has just refused. The lock is gone.
      redis.call('DEL', KEYS[5])
      return redis.error_reply('TRYAGAIN the server has refused to count a caller')
    end
    return fence
  end
  local prefix = value and '%holders|' .. number .. '|'
  if prefix and string.sub(value, 1, #prefix) == prefix then
    -- Those whose lease is over are looked for where there is no room, and when the key has to last for longer.
    local inside = redis.call('ZCARD', KEYS[5])
    if inside > 0 and (number == '0' or inside < tonumber(number)) and redis.call('PTTL', KEYS[1]) >= lasts + GRACE
      and not redis.call('ZSCORE', KEYS[5], member) then
      redis.call('ZADD', KEYS[5], ends, member)
      return tonumber(string.sub(value, #prefix + 1))
    end
  elseif prefix then
    -- Where one counts for several, the members are read.
    local most, weight = string.match(number, '^(%d+)x?(%d*)$')
    local its_least, its_phase = string.match(value, '^%%holders|(%d+)|(%d+)$')
    if its_phase and (its_least == '1' or its_least == most) and most ~= '0' then
      local taken, members = tonumber(weight) or 1, redis.call('ZRANGE', KEYS[5], '0', '-1')
      for i = 1, #members do
        local its_number, its_weight = string.match(members[i], '|(%d+)x?(%d*)|')
        taken = its_number == most and members[i] ~= member and taken + (tonumber(its_weight) or 1) or most + 1
      end
      local has = taken <= most + 0 and #members > 0 and redis.call('PTTL', KEYS[1]) or 0
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

local lock, queue, clock, claim, holders = unpack(KEYS)
local token, ttl, how, inbox, at_most, floor, kind = unpack(ARGV)
local leaves = false
-- The member of the queue that the caller is: see read.lua.
--- @with token, ttl, inbox, kind
local me = token .. '|' .. ttl .. '|' .. inbox .. (kind == '' and '' or '|' .. kind)
-- How many the caller allows inside at a time, and its member among the holders: see counted.lua.
--- @with token, inbox, kind
-- Returns how many a waiter of this kind allows inside at a time, itself included: 1 for an exclusive one, 0 for any number; for how many
-- of them it counts; and both as its member among the holders has them: see counted.lua.
local function number_of(its_kind)
  local label, its_number, its_weight = string.match(its_kind, '^n((%d+)x?(%d*))$')
  return tonumber(its_number) or 1, tonumber(its_weight) or 1, label or '1'
end
-- The inbox of a process in a Cluster ends with the tag of a slot, which changes when that slot moves.
local function without_tag(inbox)
  return string.byte(inbox, -1) == 125 and string.gsub(inbox, '{%d+}$', '') or inbox
end
local number, _, label = number_of(kind)
local mine = token .. '|' .. label .. '|' .. without_tag(inbox)
-- A granted waiter has to claim its lock by a renewal within this time, in ms: a stuck waiter costs the others no more. As text:
-- the server takes longer over a number among the arguments of a command.
local CLAIM = '1000'
-- No token is longer. The value of a foreign client may be of any length: no more of it is read than tells that it is longer,
-- because the server takes 10 ms over each megabyte that a script reads, and no more than this is returned.
local SHOWN = 512
-- Returns the time of the server in us, as text: exact, and cheaper than formatting a number. One time for the whole script.
-- Behind it, `seconds` has those of it.
local now, seconds
local function time()
  if not now then
    local seconds_and_micros = redis.call('TIME')
    local micros = seconds_and_micros[2]
    -- Nine in ten times it has six digits. Each text that is made costs as much as half a command.
    if #micros < 6 then micros = string.sub('00000' .. micros, -6) end
    seconds = seconds_and_micros[1]
    now = seconds .. micros
  end
  return now
end
-- The value of a lock is the token of its holder; behind it `=` and the time of the grant in seconds, if
-- the holder had to wait; and an exclamation mark once others have waited for it. So the holder's release
-- looks for waiters only when there are some.

local TOKEN = '^([%w_-]+@[%w._-]+:%d+[%w/_:.-]*)(=?%d*)(!?)$'

-- Returns the token in the value of a lock, the grace of its key, which is 0 without a mark, and the time
-- of its grant with the `=`, or ''. For the value of a foreign client, which is never marked, nil, 0, ''.
local function parse(value)
  if not value or string.byte(value, 23) ~= 64 or #value > SHOWN then return nil, 0, '' end
  local holder, granted, mark = string.match(value, TOKEN)
  return holder, mark == '!' and GRACE or 0, granted or ''
end
-- Returns the rest of the lease, of a PTTL in ms. Below zero, the key does not expire, or does not exist.
local function without_grace(pttl, grace)
  return pttl < 0 and pttl or math.max(pttl - grace, 0)
end
-- Marks the lock with this value, holder and grace, unless it is marked already, or a foreign client's.
--- @with lock
local function set_mark(value, pttl, holder, grace)
  if not holder or grace > 0 then return end
  if pttl < 0 then return redis.call('SET', lock, value .. '!') end
  -- As text: the server takes longer over a number than over the rest of the mark.
  redis.call('SET', lock, value .. '!', 'PX', string.format('%d', pttl + GRACE))
end
-- Returns what stands behind the token in the value of a lock that is granted now, to one that has waited for it.
local function granted_now()
  time()
  return '=' .. seconds
end
-- How the caller asks for a lock.
-- how: see acquire.lua
--- @with how
local waits = how ~= '0' and how ~= 'late'
local joins = how == 'join' or how == 'join_again'
local has_waited = waits and not joins
-- All waiters of stuck processes leave the queue.
--- @with queue
-- Members that are read together.
local TOGETHER = 250
-- Returns token, ttl and inbox of a waiter, and what is behind, '' for a fenced one; nil for a malformed member.
-- The queue of a lock is a sorted set that exists while the lock has waiters. Member: token|ttl in ms|inbox, and |unfenced
-- for one that draws no fencing token, or |once for one whose body runs once, which asks again when it is granted
-- the lock by a push, or |n5 for one that allows five at a time, itself included, and |n0 for one
-- that allows any number; score: order of arrival.
local MEMBER = '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$'
local function read(member)
  return string.match(member or '', MEMBER)
end

-- So many members one call looks at.
local LOOKED_AT = 10000

-- Waiters have left the queue, and those behind them may have been told nothing.
local have_left = false

-- `stuck` has the inboxes of the processes as its keys, without tags. Returns the inboxes of those
-- that have left as its keys, with tags; or false when there may be more of them.
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
-- A lease that ends without a release: the process that had it is stuck.
--- @with lock, queue, claim, inbox
-- Publishes to an inbox, which is a channel.

-- Returns an error, as redis.pcall does.
local function notify(inbox, text)
  return redis.pcall('PUBLISH', inbox, text)
end

-- The process that got the lock last has let its lease end: it is stuck, and each of its waiters would get a claim. So all
-- leave the queue. A process that was only slow is told that they have lost their places. Whoever asks is not stuck.
-- Returns false when there may be more of them: then the caller has to call again.
local function evict_stalled()
  local stuck = redis.call('GET', claim)
  -- A waiter that was asked, as hinted.lua says, has no lease.
  if not stuck or string.find(stuck, '|', 1, true) then return true end
  if stuck ~= inbox then
    if not evict({[without_tag(stuck)] = true}) then return false end
    notify(stuck, 'gone||0|0||' .. lock)
  end
  redis.call('DEL', claim)
  return true
end
-- A counted lock, which several have at a time.
--
-- Each caller names how many it allows inside at a time, itself included: 1 for an exclusive one, 0 for any number. One may enter
-- when fewer are inside than it and each of them allows. One that takes several permits counts for as many.
--
-- holders: a sorted set. Member: token|how many it allows|inbox, without a tag; score: when its lease ends, in ms of the
--         server's time, and half a ms behind it if its process lets it end. One that counts for 3 of 10 has 10x3 in the second place
--         An exclusive caller that knows of none leaves them out, and calls again where there are some
-- The value of the lock is %holders|the least that one of them allows|their fencing token. They have the same one: it counts phases,
-- from the first that enters a free lock to the last that leaves. The key lasts for the grace longer than the last of them.
-- While one of them counts for several, the value says that one allows no other: scripts that do not know that leave it alone, and
-- those that do read the members.
--- @with holders
-- What those that are inside demand together, by their members: see counted.lua.

-- Zero is more than any other number.
local function least(one, other)
  if one == 0 then return other elseif other == 0 then return one end
  return math.min(one, other)
end

-- Returns the least that one of them allows, and how many permits they have beyond one each.
local function limits_of(members)
  local its_least, beyond = 0, 0
  for i = 1, #members do
    local its_number, its_weight = string.match(members[i], '|(%d+)x?(%d*)|')
    its_least = least(its_least, tonumber(its_number) or 1)
    beyond = beyond + (tonumber(its_weight) or 1) - 1
  end
  return its_least, beyond
end

-- What the lock says, and of it: the least that one of them allows, or one that has left, or 1 before the members are read; how many are
-- inside; and how many permits they have beyond one each.
local written, limit, phase, inside, extra = nil, nil, nil, 0, 0

local function read_limits()
  limit, extra = limits_of(redis.call('ZRANGE', holders, 0, -1))
end

local function now_ms()
  return string.sub(time(), 1, -4)
end

-- For how many permits one of them counts.
local function weight_of(member)
  return tonumber(string.match(member, '|%d+x(%d+)|')) or 1
end

-- The rank of the one whose end makes room for this number and weight, if those before it have left, too.
local function makes_room(number, weight)
  if limit == 1 and number ~= 1 then read_limits() end
  local missing = inside + extra + weight - math.max(least(number, limit), 1)
  -- The first that leaves makes room for one.
  if missing <= 1 then return 0 end
  -- Who leaves may have allowed the fewest: those that stay say how many may be inside, from the last that ends.
  local members = redis.call('ZRANGE', holders, 0, -1)
  local taken, most = weight, number
  for i = #members, 1, -1 do
    taken, most = taken + weight_of(members[i]), least(most, tonumber(string.match(members[i], '|(%d+)')) or 1)
    if most ~= 0 and taken > most then return i - 1 end
  end
  return 0
end

-- When there is room for this number and weight, unless those inside renew or leave. In ms from now.
local function left_for(number, weight)
  local at = makes_room(number, weight)
  local ends = redis.call('ZRANGE', holders, at, at, 'WITHSCORES')[2]
  return ends and math.max(math.ceil(ends - now_ms()), 0) or 0
end
-- Reads who is inside. Those whose lease is over leave. Without a release, as evict_stalled.lua says, so do the waiters of their processes.
-- Returns false when the caller has to call again.
--- @with lock, queue, holders, inbox
-- Members that one call reads at most, in a few ms: its caller calls again at once.
local MOST = 2000
local function read_holders(value)
  local its_limit, its_phase = string.match(value or '', '^%%holders|(%d+)|(%d+)$')
  if not its_limit then return true end
  -- The caller has not named them.
  if not holders then return false end
  written, limit, phase = value, tonumber(its_limit), its_phase
  local size = 1
  -- More of them count as inside until the next call.
  for _ = 1, MOST / TOGETHER do
    local found, over, stuck = redis.call('ZRANGE', holders, 0, size - 1, 'WITHSCORES'), {}, {}
    for i = 1, #found, 2 do
      if tonumber(found[i + 1]) > tonumber(now_ms()) then break end
      over[#over + 1] = found[i]
      local its_inbox = string.match(found[i], '|([^|]*)$')
      -- A member of another form has none.
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
-- Those that are admitted, and whether there is room for more.
--- @with holders

-- Those that are not written yet, the least that one of them allows, and the permits that they have beyond one each.
local entering, entering_least, entering_extra = {}, 0, 0

local function has_room(number, weight)
  if inside == 0 then return true end
  if limit ~= 0 and (number == 0 or limit < number) and inside > #entering / 2 then
    -- Somebody allowed fewer than this one does, or counted for several. It may have left. Where nobody is written, the members are those
    -- of a lock that was deleted.
    read_limits()
    limit, extra = least(limit, entering_least), extra + entering_extra
  end
  local most = least(number, limit)
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
-- Makes the key of a counted lock last for so many ms, and a third more: so it changes seldom, and those that watch it are told seldom.
-- Before it, the holders: where access rules forbid that, those that are inside would leave with a set that ends before the key.
--- @with lock, holders
local function extend_counted(lasts, value, has)
  local px = lasts + GRACE
  if not value and has >= px then return end
  px = string.format('%.0f', math.max(px + math.floor(lasts / 3), has))
  if has > 0 then redis.call('PEXPIRE', holders, px) end
  if value then redis.call('SET', lock, value, 'PX', px) else redis.call('PEXPIRE', lock, px) end
  return px
end
-- Those that were admitted are inside now. In between, a script that fails leaves a lock that counts nobody: free to all of us.
--- @with lock, clock, claim, holders, floor
-- Draws a fencing token.
-- clock: the key of the clock of fencing tokens, one per server
-- floor: a clock below it is raised to the server's time; empty for LEAST. A floor that ends with .5 is a fencing token that the
--        caller has seen, and a half: the clock is raised above it, whatever the server's time is.

-- A raised clock stays this far below the server's time, in us: room for reserve.lua.
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
      -- In two parts, each of which is an integer on any server: %.0f takes longer.
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
  -- What was there before, if the lock was deleted.
  if is_first then redis.call('DEL', holders, claim) end
  -- One that is inside already keeps its lease: it may have entered without the queue, where its process could not notify, and left
  -- its place behind.
  local added = type(redis.pcall('ZADD', holders, 'NX', unpack(entering))) ~= 'table'
  -- Nobody is inside without a member, and a set that may not get its expiry would stay forever.
  local is_undone = is_first and not (added and type(redis.pcall('PEXPIRE', holders, px)) ~= 'table')
  if is_undone then
    redis.call('DEL', lock, holders)
    -- This or the next one runs into the same error again.
    redis.call('PEXPIRE', lock, px)
  end
  if not added then redis.call('ZADD', holders, 'NX', unpack(entering)) end
  if is_undone then
    -- The server allows now what it has just refused. The lock is gone.
    redis.call('DEL', holders)
    error({err = 'TRYAGAIN the server has refused to count a caller'})
  end
  written, entering, entering_least, entering_extra = value, {}, 0, 0
end
-- Those in front of the queue enter, as long as they may be inside together, each for a claim; the caller for `lasts`. An exclusive
-- one gets a lock in which nobody is. Dead and malformed ones in front leave the queue.
-- mine: the member of the caller among the holders   number: how many it allows
--- @with lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number
-- Returns the waiters to tell.
--- @with queue
local function first_two()
  return redis.call('ZRANGE', queue, '0', '1')
end
-- Returns all that may have been told of the claim of the holder, whose process is the one of both if it is that of the first two.
--- @with queue
-- Returns the first waiter of another process than that of the first two.
--- @with queue
local function first_behind(their_inbox)
  local its, from, to = '|' .. their_inbox, 2, 5
  while from <= TOGETHER do
    local members = redis.call('ZRANGE', queue, from, to)
    for i = 1, #members do
      -- Most are of that process. A pattern takes longer than the rest of the call.
      local member = members[i]
      local _, ends = string.find(member, its, 1, true)
      local behind = ends and string.byte(member, ends + 1)
      if not ends or behind and behind ~= 124 then
        local _, _, inbox = read(member)
        if inbox and inbox ~= their_inbox then return member end
      end
    end
    if #members <= to - from then return end
    -- Often it is among the first few, and each that is read costs a third of a command.
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
-- A waiter is there while its inbox has a subscriber.
-- token: the caller   leaves: the caller leaves. An older place of its own, under another tag of its inbox, goes with it
--- @with lock, token, leaves
-- Returns how many clients hear what is published to an inbox. The reply of PUBLISH also counts clients that subscribe to all
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
-- A waiter that has left the queue gets the lock, and is told. Returns for how many ms it has it.
--- @with lock, queue, clock, claim, floor, inbox
-- As notify.lua, and raises an error, as redis.call does.
local function must_notify(inbox, text)
  redis.call('PUBLISH', inbox, text)
end
-- Tells the first two waiters, because one may be dead, how long the lock lasts that is in front of them: then they ask again.
-- The claimant, the inbox of a waiter that was granted the lock, is told of the grant, and needs no hint. If both are of that
-- process, the first waiter of another process is told, because a stuck process does not ask. A process that hands a lock to
-- itself, with this inbox, is not stuck.
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
-- The followers of a grant: the waiters behind the one that gets the lock, as far as they are of its process, have its ttl, and
-- draw no fencing token either. Its process passes the lock on to them in this order, without a request for each.
--- @with queue

-- Names them, 31 at most. `rest`: what is behind the token in the place of the one that gets the lock. Returns the 22 random characters of each
-- token.
local function followers_of(rest, first, second)
  if string.sub(first or '', -#rest) ~= rest then return '' end
  local members = {first}
  if string.sub(second or '', -#rest) == rest then members = redis.call('ZRANGE', queue, '0', '30') end
  local count, find, sub, byte = 0, string.find, string.sub, string.byte
  for i = 1, #members do
    -- Each new text takes longer than a search, and a table that grows longer than one that is there.
    local member = members[i]
    local _, ends = find(member, rest, 24, true)
    if ends ~= #member or byte(member, 23) ~= 64 then break end
    members[i], count = sub(member, 1, 22), i
  end
  return table.concat(members, '', 1, count)
end
-- The lock has this value for so many ms, and is marked if these waiters wait for it, or if `grace` says
-- so. Returns the mark.
-- The claim is noted while others wait: the lock vanishes soon after a lease that ends without a release.
-- claim: the key that exists only while the lock has waiters: the inbox of the waiter that got the lock last
--- @with lock, claim
-- In ms, as text. The queue of crashed waiters expires; live waiters ask again much sooner.
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
    -- Access rules have changed: no waiter hears of its lock any more, so it is free. The caller hears of the same error.
    redis.call('DEL', lock)
    must_notify(next_inbox, '')
  end
  return lasts
end
-- The first two may be told of another time each. If both are of one process, which may be stuck, another one is told, too.
-- `score`: of one that has left; if it was to end later than what they were told, nothing changes for them.
--- @with lock, queue, holders, inbox
local function notify_each(members, score)
  for _, member in ipairs(members) do
    local _, _, _, its_kind = read(member)
    if its_kind then
      local left = left_for(number_of(its_kind))
      if not score or math.ceil(score - now_ms()) >= left then notify_waiters({member}, left, time(), '') end
    end
  end
end

-- So many one call lets in at most.
local IN_ONE = 250

-- As the holder in an answer: the value of the lock, and how many are inside, and where one of them counts for several, how many permits
-- they have.
local function who_is_inside()
  if limit == 1 then read_limits() end
  local who = '%holders|' .. limit .. '|' .. phase .. '|' .. inside
  return extra == 0 and who or who .. '|' .. inside + extra
end

-- Returns what `grant_next` returns: the caller's token, when it is inside, or may take the lock for itself alone; the token of who has
-- it alone, and for how many ms; nil when nobody is inside and the queue is empty; false when the caller has to call again. Else
-- who_is_inside(), and what is left for the caller. Behind them: whether those that are the first two now were told.
local function admit_waiters(lasts)
  if not holders then return false end
  local looked, size, granted, is_inside, is_over = 0, 2, {}, false, false
  while looked < MOST and not is_over do
    local members, gone = redis.call('ZRANGE', queue, 0, size - 1), 0
    for i, member in ipairs(members) do
      local next_token, next_ttl, next_inbox, its_kind = read(member)
      if next_token and is_there(next_token, next_inbox) then
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
          -- It asks at once, and goes on.
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
-- Who keeps out a caller of this number and weight: the member of the one whose end makes room, and, where there is room, that of the
-- first waiter, which the caller does not pass. '' for none.
--- @with queue, holders
local function who_keeps_out(its_number, its_weight)
  local at = makes_room(its_number, its_weight)
  local holder = redis.call('ZRANGE', holders, at, at)[1] or ''
  local waiter = has_room(its_number, its_weight) and redis.call('ZRANGE', queue, '0', '0')[1] or ''
  return {string.sub(holder, 1, SHOWN), string.sub(waiter, 1, SHOWN)}
end
-- The queue is gone (FLUSHALL, DEL, eviction), or only this waiter has left it, granted. The other waiters of its inbox may
-- have lost their places, too, and only one of them asks.
--- @with lock, how, inbox, token
local function notify_place_lost()
  if not has_waited or how == 'rejoin' then return end
  notify(inbox, 'gone|' .. token .. '|0|0||' .. lock)
end
-- A queue in which no more may wait.
-- at_most: so many may wait
--- @with lock, queue, token, leaves, at_most

-- So many waiters are looked at when the queue is full: if they are in one row, a caller that is refused costs little.
local LOOKED_AT_WHEN_FULL = 16

-- Returns how many wait, and whether no more may. When as many wait as may, those that nobody hears leave: they are dead, and
-- would keep others out of a lock that may be free for as long as their queue is there.
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
-- Others have left in front of those that are in front now. Returns false when the caller has to call again.
--- @with lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number
local function notify_front(holder, left)
  if inside > 0 then return admit_waiters() ~= false end
  -- A foreign client releases without a push: as in release.lua.
  notify_waiters(notified_waiters(), holder and math.max(left, 0) or 0, time(), '')
  return true
end
-- The caller, `me`, has a place in the queue from now on.
--- @with lock, queue, how, inbox, token, me
-- Whether access rules allow to publish there. From Redis 7.0 on.
local function may_notify(inbox, text)
  return redis.acl_check_cmd('PUBLISH', inbox, text)
end
-- The caller, `me`, joins the queue, behind these waiters, also when the clock went back. A queue that may not get its expiry would
-- stay forever: without this waiter, it has that of the others, or is gone.
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
    -- Raises an error when access rules have changed, so that this waiter would not hear of its lock. From Redis 7.0 on.
    if redis.acl_check_cmd and not may_notify(inbox, '') then
      must_notify(inbox, '')
    end
  end
end
-- The first waiter keeps out those behind it that have room beside the holders, and its process may be stopped. So a caller that
-- has room sends it a hint, and it has to ask within a claim, or the waiters of its process leave the queue. The claim notes since
-- when, in ms of the server's time, and its place: no inbox contains `|`. A waiter that asks makes the queue last for QUEUE_TTL
-- again, in any version of these scripts. The queue of a first waiter that has not answered lasts for a claim less: a request of
-- another process leaves it so.
--- @with queue, claim, holders, inbox
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

-- Behind `enqueue`.
local function leave_unanswered()
  if hinted and not hinted.answers then
    redis.call('PEXPIRE', queue, math.max(QUEUE_TTL - CLAIM - hinted.waited, QUEUE_TTL / 2))
  end
end
-- A first waiter that keeps out a caller that has room: see hinted.lua.
--- @with lock, queue, claim, holders, inbox

-- Returns false when the caller has to call again.
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

-- For a caller that did not get in. Returns when it asks again, in ms.
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
  return math.max(CLAIM - hinted.waited, 1)
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
  -- Those that waited have entered, or were dead.
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
