-- Takes over a lock that its holder has left to the owner of a ticket.
-- KEYS[1] to KEYS[4] as in acquire.lua   ARGV[1], ARGV[2], ARGV[4], ARGV[6], ARGV[7] as in acquire.lua
-- ARGV[8] the token of the ticket, under which the lock was left
-- Returns a fencing token (0: unfenced), or -1 when another token holds the lock, or -2 when it is free. It does not
-- use the queue: to the waiters, the lock was held all the time. Idempotent by token, as acquire.lua.
local lock, queue, clock, claim = unpack(KEYS)
local token, ttl, _, inbox, _, floor, kind = unpack(ARGV)
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
-- Draws a fencing token.
-- clock: the key of the clock of fencing tokens, one per server
-- floor: a clock below it is raised to the server's time; empty for LEAST. A floor that ends with .5 is a fencing token
--         that the caller has seen, and a half: the clock is raised above it, even above the server's time.
-- No fencing token is less, unless the clock has lost its data. In us since 1970: a time long before this one.
local LEAST = 1000000000000000

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
-- Returns the value of a lock, or its first bytes as in shown.lua, or false if the lock does not exist. Access rules
-- may forbid GETRANGE; any error of GET is raised.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '512')
  if type(value) == 'table' then return redis.call('GET', key) end
  return (value ~= '' or redis.call('EXISTS', key) == 1) and value
end
-- Splits the value of a lock. It is the token of its holder; then `=` and the time of the grant in seconds, if the
-- holder had to wait; and an exclamation mark once others have waited for it. So the holder's release looks for waiters
-- only if there are some.
-- The key of a marked lock, and of a counted lock, outlives its lease by this time, in ms: until the head of the queue
-- has asked, no other client finds it free.
local GRACE = 100
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
-- Returns what follows the token in the value of a lock that is granted now, to a caller that has waited for it.
local function granted_now()
  time()
  return '=' .. seconds
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
-- Returns the waiters that may have received a push about the holder's claim: the first two and, if these are of one
-- process, the first one of another process.
--- @with queue
-- Returns the waiters to notify.
--- @with queue
local function first_two()
  return redis.call('ZRANGE', queue, '0', '1')
end
local function notified_waiters()
  local waiters = first_two()
  local _, _, first = read(waiters[1])
  local _, _, second = read(waiters[2])
  if first and first == second then waiters[3] = first_behind(first) end
  return waiters
end

local value = value_of(lock)
local holder, grace, granted = parse(value)
local left = value and without_grace(redis.call('PTTL', lock), grace)
-- In the grace of the lock, the ticket has expired.
if not value or grace > 0 and left == 0 then return -2 end
if holder ~= token and holder ~= ARGV[8] then return -1 end
local waiters = redis.call('EXISTS', queue) == 1 and notified_waiters() or {}
local fence, lasts = kind == 'unfenced' and 0 or next_fence(clock, floor), tonumber(ttl)
if holder == token then lasts = math.max(lasts, left) else granted = granted_now() end
set_lock(token .. granted, lasts, grace, waiters, inbox)
notify_waiters(waiters, lasts, time(), '')
return fence
