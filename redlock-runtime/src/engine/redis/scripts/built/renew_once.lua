-- Renews a lock as renew.lua does. While a body runs, its record lasts as long as its lock, and then for `once`.
-- KEYS[1] the lock   KEYS[2] the record; or, with 'exactly', KEYS as in acquire.lua and KEYS[7] the record
-- ARGV[1] to ARGV[3] as in renew.lua   ARGV[4] how long the record outlives the lock in ms   ARGV[5] the runner
-- Returns what renew.lua returns.
-- Idempotent: a second call renews, too.
-- The key of a marked lock, and of a counted lock, outlives its lease by this time, in ms: until the head of the queue
-- has asked, no other client finds it free.
local GRACE = 100
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
if parse(value_of(KEYS[1])) == ARGV[1] then
  local key = KEYS[7] or KEYS[2]
  local begins = redis.pcall('GETRANGE', key, '0', '127')
  if type(begins) == 'table' then begins = redis.pcall('GET', key) end
  -- This prolongs no record of a body that is done, or of another runner.
  if type(begins) == 'string' and string.match(begins, '^[^|]*|s|%d+|(%x+)|') == ARGV[5] then
    local lasts = ARGV[4] + math.max(ARGV[2], redis.call('PTTL', KEYS[1])) + GRACE
    if redis.call('PTTL', key) < lasts then redis.call('PEXPIRE', key, string.format('%.0f', lasts)) end
  end
end

local function renew(KEYS, ARGV)
-- Moves the expiry of a lock that this token holds.
-- KEYS[1] the lock   KEYS[2] its queue and KEYS[4] the claim, with 'exactly' or 'ticket'
-- ARGV[1] token   ARGV[2] ttl in ms (above zero: PEXPIRE 0 would delete)
-- ARGV[3] 'exactly': also to an earlier time. Without it, a request that arrives late does not shorten the lease.
--         'ticket': as 'exactly', and the value says that a ticket carries the lock from now on.
-- ARGV[4] inbox
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: a second call moves the expiry again, and only with 'exactly' or 'ticket' to an earlier time.
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
local to_ticket = ARGV[3] == 'ticket'
local answer, lasts, grace = extend(KEYS[1], ARGV[1], ARGV[2], to_ticket or ARGV[3] == 'exactly')
if to_ticket and answer == 1 or lasts and ARGV[3] == 'exactly' then
  local lock, queue, inbox = KEYS[1], KEYS[2], ARGV[4]
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
  if to_ticket then
    time()
    -- The zero in front of the time tells a ticket from a grant.
    local value = ARGV[1] .. '=0' .. seconds .. (lasts and '!' or '')
    redis.call('SET', lock, value, 'PX', string.format('%d', ARGV[2] + (grace or 0)))
  end
  if lasts then
    -- The waiters would ask at the earlier end of the lease. The process lets the lease end, so it is not stuck, and
    -- its claim goes.
    redis.call('DEL', KEYS[4])
    notify_waiters(notified_waiters(), lasts, time(), '')
  end
end
return answer
end
return renew(KEYS, {ARGV[1], ARGV[2], ARGV[3], ''})
