-- One of several that have a counted lock lets its lease end at this time. One that has the lock alone, as an older version of a client
-- has granted it, does, too, as in renew.lua.
-- KEYS as in acquire_counted.lua   ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] 'exactly'   ARGV[4] inbox
-- ARGV[7] as in acquire_counted.lua
-- Returns 1, or 0 when it is not inside, or 2 when the caller has to call again.
-- Idempotent: a second call lets it end at its own time.
local lock, queue, _, claim, holders = unpack(KEYS)
local token, ttl, _, inbox, _, _, kind = unpack(ARGV)
-- The key of a marked lock stays for this long after its lease, in ms: until the head of the queue has asked, no other
-- client finds it free. So does the key of a counted lock.
local GRACE = 100
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
-- Returns the value of a lock, as much of it as is needed: see shown.lua; or false for a lock that does not exist.
-- Access rules may forbid GETRANGE; any error of GET is raised.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '512')
  if type(value) == 'table' then return redis.call('GET', key) end
  return (value ~= '' or redis.call('EXISTS', key) == 1) and value
end
-- The inbox of a process in a Cluster ends with the tag of a slot, which changes when that slot moves.
local function without_tag(inbox)
  return string.byte(inbox, -1) == 125 and string.gsub(inbox, '{%d+}$', '') or inbox
end
-- Returns the waiters to tell.
--- @with queue
local function first_two()
  return redis.call('ZRANGE', queue, '0', '1')
end
-- Tells the first two waiters, because one may be dead, how long the lock lasts that is in front of them: then they ask again.
-- The claimant, the inbox of a waiter that was granted the lock, is told of the grant, and needs no hint. If both are of that
-- process, the first waiter of another process is told, because a stuck process does not ask. A process that hands a lock to
-- itself, with this inbox, is not stuck.
--- @with lock, queue, inbox
-- Returns token, ttl and inbox of a waiter, and what is behind, '' for a fenced one; nil for a malformed member.
-- The queue of a lock is a sorted set that exists while the lock has waiters. Member: token|ttl in ms|inbox, and |unfenced
-- for one that draws no fencing token, or |once for one whose body runs once, which asks again when it is granted
-- the lock by a push, or |n5 for one that allows five at a time, itself included, and |n0 for one
-- that allows any number; score: order of arrival.
local MEMBER = '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$'
local function read(member)
  return string.match(member or '', MEMBER)
end
-- Publishes to an inbox, which is a channel.

-- Returns an error, as redis.pcall does.
local function notify(inbox, text)
  return redis.pcall('PUBLISH', inbox, text)
end
-- Returns the first waiter of another process than that of the first two.
--- @with queue
-- Members that are read together.
local TOGETHER = 250
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
-- All waiters of stuck processes leave the queue.
--- @with queue

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
-- The first two may be told of another time each. If both are of one process, which may be stuck, another one is told, too.
-- `score`: of one that has left; if it was to end later than what they were told, nothing changes for them.
--- @with lock, queue, holders, inbox
-- Returns how many a waiter of this kind allows inside at a time, itself included: 1 for an exclusive one, 0 for any number; for how many
-- of them it counts; and both as its member among the holders has them: see counted.lua.
local function number_of(its_kind)
  local label, its_number, its_weight = string.match(its_kind, '^n((%d+)x?(%d*))$')
  return tonumber(its_number) or 1, tonumber(its_weight) or 1, label or '1'
end
local function notify_each(members, score)
  for _, member in ipairs(members) do
    local _, _, _, its_kind = read(member)
    if its_kind then
      local left = left_for(number_of(its_kind))
      if not score or math.ceil(score - now_ms()) >= left then notify_waiters({member}, left, time(), '') end
    end
  end
end

local mine = token .. '|' .. string.sub(kind, 2) .. '|' .. without_tag(inbox)

-- The key need not last for much longer than the last of those inside: one lets its lease end sooner than it was to.
local function shorten()
  local last = redis.call('ZRANGE', holders, '-1', '-1', 'WITHSCORES')[2]
  local lasts = math.max(math.ceil(last - now_ms()), 0) + GRACE
  if redis.call('PTTL', lock) <= lasts + math.floor(lasts / 3) then return end
  local px = string.format('%.0f', lasts)
  redis.call('PEXPIRE', lock, px)
  redis.call('PEXPIRE', holders, px)
end

if not read_holders(value_of(lock)) then return 2 end
if limit then
  if not redis.call('ZSCORE', holders, mine) then return 0 end
  local lasts = ttl + 1
  -- And half a ms: its process, which lets it end, is not stuck.
  local px = extend_counted(lasts + 1, false, redis.call('PTTL', lock))
  -- First what a full server allows.
  redis.call('PEXPIRE', holders, px or redis.call('PTTL', holders))
  redis.call('ZADD', holders, string.format('%.1f', now_ms() + lasts + 0.5), mine)
  shorten()
  notify_each(first_two())
  return 1
end

-- Moves the expiry of a lock that this token holds. A request that arrives late does not shorten the lease, unless `exactly`.
-- ttl: in ms, above zero: PEXPIRE 0 would delete
-- Returns 1, and behind it for how many ms a marked lock lasts, and its grace; 0 when this token does not hold the lock.
-- The time of the grant: behind the token in the value of a lock, `=` and the server's time in seconds,
-- where its holder had to wait. The time in the token is when it asked. For people alone.

-- Returns the value of a lock without that, if it is that of this token.
local function without_time(value, token)
  -- Looks at one letter first: each text that is made costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
local function extend(lock, token, ttl, exactly)
  local value = redis.pcall('GETRANGE', lock, '0', '512')
  if type(value) == 'table' then value = redis.call('GET', lock) end
  -- The short way, for a lock without waiters: its value has no mark.
  if without_time(value, token) == token then
    local lasts, left = ttl, redis.call('PTTL', lock)
    if not exactly and left > tonumber(lasts) then lasts = left end
    return redis.call('PEXPIRE', lock, lasts)
  end

-- The value of a lock is the token of its holder; behind it `=` and the time of the grant in seconds, if
-- the holder had to wait; and an exclamation mark once others have waited for it. So the holder's release
-- looks for waiters only when there are some.
-- No token is longer. The value of a foreign client may be of any length: no more of it is read than tells that it is longer,
-- because the server takes 10 ms over each megabyte that a script reads, and no more than this is returned.
local SHOWN = 512

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
  local holder, grace = parse(value)
  if holder ~= token then return 0 end
  local lasts, left = tonumber(ttl), without_grace(redis.call('PTTL', lock), grace)
  if not exactly then lasts = math.max(lasts, left) end
  redis.call('PEXPIRE', lock, lasts + grace)
  return 1, lasts, grace
end
-- Returns all that may have been told of the claim of the holder, whose process is the one of both if it is that of the first two.
--- @with queue
local function notified_waiters()
  local waiters = first_two()
  local _, _, first = read(waiters[1])
  local _, _, second = read(waiters[2])
  if first and first == second then waiters[3] = first_behind(first) end
  return waiters
end
local answer, lasts = extend(lock, token, ttl, true)
if lasts then
  -- As in renew.lua.
  redis.call('DEL', claim)
  notify_waiters(notified_waiters(), lasts, time(), '')
end
return answer
