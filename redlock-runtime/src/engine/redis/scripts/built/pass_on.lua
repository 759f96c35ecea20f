-- Tells the server who has a lock that its process has passed on: its value becomes the token of that one, and those that have
-- had it meanwhile leave the queue. Renews it, too.
-- KEYS[1] the lock   KEYS[2] its queue   KEYS[4] the claim
-- ARGV[1] the token under which the server was told that it is held   ARGV[2], ARGV[3] as in renew.lua
-- ARGV[4] the inbox of the process   ARGV[5] the ttl in their places; empty where they have none
-- ARGV[6] and so on: the tokens of those that it was passed on to, one after the other; the last one has the lock now
-- Returns 1, or 0 when none of all these tokens holds the lock.
-- Idempotent: a second call finds the last token, and renews.
local lock, queue, claim, inbox = KEYS[1], KEYS[2], KEYS[4], ARGV[4]
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
-- The value of a lock is the token of its holder; behind it `=` and the time of the grant in seconds, if
-- the holder had to wait; and an exclamation mark once others have waited for it. So the holder's release
-- looks for waiters only when there are some.
-- The key of a marked lock stays for this long after its lease, in ms: until the head of the queue has asked, no other
-- client finds it free. So does the key of a counted lock.
local GRACE = 100
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
-- Returns all that may have been told of the claim of the holder, whose process is the one of both if it is that of the first two.
--- @with queue
-- Returns the waiters to tell.
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
local holder, grace, granted = parse(value_of(lock))
local has_places, is_held, places = ARGV[5] ~= '', holder == ARGV[1], {}
for i = 6, #ARGV do
  -- As in release.lua.
  is_held = is_held or holder == ARGV[i] and (i == #ARGV or not has_places)
  places[i - 5] = ARGV[i] .. '|' .. ARGV[5] .. '|' .. inbox .. '|unfenced'
end
if not is_held then return 0 end
local lasts, to_ticket = tonumber(ARGV[2]), ARGV[3] == 'ticket'
local exactly = to_ticket or ARGV[3] == 'exactly'
if not exactly then lasts = math.max(lasts, without_grace(redis.call('PTTL', lock), grace)) end
-- First what a full server allows: it allows the rest of the script then.
redis.call('PEXPIRE', lock, lasts + grace)
if has_places then redis.call('ZREM', queue, unpack(places)) end
if to_ticket or holder ~= ARGV[#ARGV] then granted = (to_ticket and '=0' or '=') .. string.sub(time(), 1, -7) end
redis.call('SET', lock, ARGV[#ARGV] .. granted .. (grace > 0 and '!' or ''), 'PX', string.format('%d', lasts + grace))
-- Those that have left were told when to ask. And as in renew.lua.
if has_places or exactly then
  local waiters = notified_waiters()
  if #waiters == 0 or exactly then redis.call('DEL', claim) end
  notify_waiters(waiters, lasts, time(), '')
end
return 1
