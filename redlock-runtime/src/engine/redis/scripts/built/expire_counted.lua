-- Lets the lease of one holder of a counted lock end at this time. If an older client has granted the lock to this
-- token alone, this renews the lock with 'exactly', as renew.lua does.
-- KEYS as in acquire_counted.lua   ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] 'exactly'   ARGV[4] inbox
-- ARGV[7] as in acquire_counted.lua
-- Returns 1, or 0 if this token is not inside, or 2 if the caller has to call again.
-- Idempotent: a second call sets the end again.
local lock, queue, _, claim, holders, permits = unpack(KEYS)
local token, ttl, _, inbox, _, _, kind = unpack(ARGV)
-- The key of a marked lock, and of a counted lock, outlives its lease by this time, in ms: until the head of the queue
-- has asked, no other client finds it free.
local GRACE = 100
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
-- Returns the value of a lock, or its first bytes as in shown.lua, or false if the lock does not exist. Access rules
-- may forbid GETRANGE; any error of GET is raised.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '512')
  if type(value) == 'table' then return redis.call('GET', key) end
  return (value ~= '' or redis.call('EXISTS', key) == 1) and value
end
-- Returns an inbox without its tag: in a Cluster, it ends with the tag of a slot, which changes when that slot moves.
local function without_tag(inbox)
  return string.byte(inbox, -1) == 125 and string.gsub(inbox, '{%d+}$', '') or inbox
end
-- Returns the waiters to notify.
--- @with queue
local function first_two()
  return redis.call('ZRANGE', queue, '0', '1')
end
-- Publishes to the first two waiters, because one may be dead, how long the lease in front of them lasts: then they ask
-- again. The claimant is the inbox of the waiter that was granted the lock. Its process receives the grant, and needs
-- no hint. If both waiters are of that process, the first waiter of another process receives the push, because a stuck
-- process does not ask. A process that hands a lock to itself, with this inbox, is not stuck.
--- @with lock, queue, inbox
-- Returns token, ttl, inbox and kind of a waiter ('' for one that draws a fencing token); nil for a malformed member.
-- The queue of a lock is a sorted set that exists while the lock has waiters. Member: token|ttl in ms|inbox, and then
-- |unfenced for a waiter that draws no fencing token, or |once for a waiter whose body runs once, which asks again when
-- a push grants it the lock, or |n5 for a waiter that allows five at a time, itself included, or |n0 for one that
-- allows any number. Score: order of arrival.
local MEMBER = '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$'
local function read(member)
  return string.match(member or '', MEMBER)
end
-- Publishes to an inbox, which is a channel.

-- Returns an error, as redis.pcall does.
local function notify(inbox, text)
  return redis.pcall('PUBLISH', inbox, text)
end
-- Returns the first waiter that is of another process than the first two.
--- @with queue
-- How many members one command reads.
local TOGETHER = 250
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
-- Removes all waiters of stuck processes from the queue.
--- @with queue

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
-- Notifies each of these waiters when there is room for it: the times differ. The members are the first two and, if
-- these are of one process, which may be stuck, the first of another process. `score`: the end of the lease of a holder
-- that has left; a waiter that was to enter before that end receives nothing.
--- @with lock, queue, holders, permits, inbox
-- Returns the limit of a waiter of this kind (1 for an exclusive waiter, 0 for any number), its weight, and both as
-- they are written in its member among the holders: see counted.lua.
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

-- Shortens the key, which need not last much longer than the last lease: this lease ends sooner than before.
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
  -- The half ms says that the process lets the lease end, and is not stuck.
  local px = extend_counted(lasts + 1, false, redis.call('PTTL', lock))
  -- This comes first, because a full server allows it, and then the rest.
  redis.call('PEXPIRE', holders, px or redis.call('PTTL', holders))
  redis.call('ZADD', holders, string.format('%.1f', now_ms() + lasts + 0.5), mine)
  shorten()
  notify_each(first_two())
  return 1
end

-- Moves the expiry of a lock that this token holds. A request that arrives late does not shorten the lease, unless `exactly`.
-- ttl: in ms, above zero: PEXPIRE 0 would delete
-- Returns 1, and behind it for how many ms a marked lock lasts, and its grace; 0 when this token does not hold the lock.
-- The time of the grant follows the token in the value of a lock whose holder had to wait: `=` and the server's time in
-- seconds. (The time in the token is when the holder asked.) Only people read it.

-- Returns the value of a lock without the time of the grant, if it is this token's.
local function without_time(value, token)
  -- Compares one letter first, because each new text costs as much as half a command.
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

-- Splits the value of a lock. It is the token of its holder; then `=` and the time of the grant in seconds, if the
-- holder had to wait; and an exclamation mark once others have waited for it. So the holder's release looks for waiters
-- only if there are some.
-- No token is longer. The value of a foreign client may be of any length, and the server takes 10 ms for each megabyte
-- that a script reads. So a script reads one byte more, which shows that the value is longer, and returns this many.
local SHOWN = 512

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
  local holder, grace = parse(value)
  if holder ~= token then return 0 end
  local lasts, left = tonumber(ttl), without_grace(redis.call('PTTL', lock), grace)
  if not exactly then lasts = math.max(lasts, left) end
  redis.call('PEXPIRE', lock, lasts + grace)
  return 1, lasts, grace
end
-- Returns the waiters that may have received a push about the holder's claim: the first two and, if these are of one
-- process, the first one of another process.
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
