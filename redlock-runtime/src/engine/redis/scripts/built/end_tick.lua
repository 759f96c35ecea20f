-- Releases a lock as release.lua does, with the same KEYS, ARGV[1] to ARGV[7] and answer, and updates the record of its
-- tick.
-- KEYS[7] the record of the last tick, as in tick.lua
-- ARGV[8] what becomes of the tick   ARGV[9] the tick   ARGV[10] how long its record is kept   ARGV[11] how long ago it was asked for:
-- as in includes/end_tick.lua
-- Idempotent by token: a second call finds no lock of it.
-- Releases a lock, and says what becomes of its tick.
-- release: the function that releases it   record: the key of the record of the last tick, as in tick.lua
-- what: 'record': the tick has been run, and is over if this token still holds the lock; 'undo': no body has
--         begun, so that another caller may run a tick that this token has recorded
-- tick: in ms since 1970; empty to undo   keeps: how long after its time its record is kept, in ms
-- asked: how long ago the caller asked for the lock, in ms
-- Returns what `release` returns. The release comes first: the lock is free even if the record cannot be written, and a
-- full server allows the record then.
-- The time of the grant follows the token in the value of a lock whose holder had to wait: `=` and the server's time in
-- seconds. (The time in the token is when the holder asked.) Only people read it.

-- Returns the value of a lock without the time of the grant, if it is this token's.
local function without_time(value, token)
  -- Compares one letter first, because each new text costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
local function end_tick(release, lock, token, record, what, tick, keeps, asked)
  local is_held = false
  if what == 'record' then
    local value = redis.pcall('GETRANGE', lock, '0', '512')
    if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then value = redis.call('GET', lock) end
    value = without_time(value, token)
    is_held = value == token or value == token .. '!'
  end
  local answer = release()
  if what == 'undo' then
    local last, its_token = string.match(redis.call('GET', record) or '', '^(%d+)|([^|]*)')
    if its_token == token then
      local px = string.format('%.0f', math.max(redis.call('PTTL', record), 1))
      -- This changes nothing, but a full server then allows the rest of the script, also if nothing was released.
      redis.call('PEXPIRE', record, px)
      redis.call('SET', record, last .. '|', 'PX', px)
    end
  elseif is_held then
    local seconds_and_micros = redis.call('TIME')
    local now = seconds_and_micros[1] * 1000 + math.floor(seconds_and_micros[2] / 1000)
    local left = tick + keeps - now
    local value = string.format('%s|%s|%.0f|', tick, token, now - asked)
    if left > 0 then redis.call('SET', record, value, 'PX', string.format('%.0f', left)) end
  end
  return answer
end
local function release(KEYS, ARGV)
-- Releases a lock that this token holds, or a token to which its process has passed the lock on. The longest waiter
-- gets it, or it is free. If none of these tokens holds the lock, they leave the queue.
-- KEYS as in acquire.lua   ARGV[1], ARGV[2], ARGV[4], ARGV[6], ARGV[7] as in acquire.lua
-- ARGV[3] as in leave_free.lua
-- ARGV[8] and so on: the tokens that its process has passed the lock on to, if pass_on.lua may not have run since, or
-- if they may have places in the queue
-- Returns 1, or 0 if none of these tokens holds the lock, or 2 if the caller has to call again.
-- Idempotent by token: a second call finds neither a lock nor a place of this token.

-- The short way, for a lock without waiters: its value has no mark, and no time, because its holder has not waited
-- either. It has the same effect as `release` in includes/release.lua. GETRANGE reads only as much as shown.lua says. A
-- value of another type is not this token. Access rules may forbid GETRANGE; `call` raises any other error again.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then value = redis.call('GET', KEYS[1]) end

local lock, queue, clock, claim, holders, permits = unpack(KEYS)
local token, ttl, how, inbox, _, floor, kind = unpack(ARGV, 1, 7)
inbox, kind = inbox or '', kind or ''
-- The key of a marked lock, and of a counted lock, outlives its lease by this time, in ms: until the head of the queue
-- has asked, no other client finds it free.
local GRACE = 100
-- A granted waiter has to claim its lock by a renewal within this time, in ms, so a stuck waiter costs the others no
-- more. It is text, because the server takes longer for a number among the arguments of a command.
local CLAIM = '1000'
-- No fencing token is less, unless the clock has lost its data. In us since 1970: a time long before this one.
local LEAST = 1000000000000000
-- How long a queue lasts after the last request, in ms, as text. The queue of crashed waiters expires; live waiters ask
-- again much sooner.
local QUEUE_TTL = '60000'
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
-- Returns the first waiter that is of another process than the first two.
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
-- Publishes to an inbox, which is a channel.

-- Returns an error, as redis.pcall does.
local function notify(inbox, text)
  return redis.pcall('PUBLISH', inbox, text)
end
-- Publishes as notify.lua, but raises an error, as redis.call does.
local function must_notify(inbox, text)
  redis.call('PUBLISH', inbox, text)
end
-- Returns how many clients subscribe to an inbox. The reply of PUBLISH also counts clients that subscribe to all
-- channels by pattern.
local function listeners(inbox)
  return redis.call('PUBSUB', 'NUMSUB', inbox)[2]
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

-- As text: the server takes a third of a command longer for a number, and so does the script to make a text of one.
local CLAIM_AND_GRACE = '1100'

-- The short way, for a marked lock: its first waiter gets it, if that waiter is alive. It has the same effect as
-- `release` below, with `grant_one` and `notify_waiters`, but is written for a server that is idle between two
-- releases, with cold caches. There, a pattern over a member takes longer than GET, and so does a number among the
-- arguments of a command. So this searches texts for single characters, and leaves numbers as text. And each function
-- of the long way takes longer to make than to call.

-- The holder had to wait, but nobody waits behind it.
value = without_time(value, token)
if value == token then return redis.call('DEL', lock) end

if value == token .. '!' and (not ARGV[8] or kind == 'unfenced') and (how == '0' or time() % 128 >= how + 0) then
  if ARGV[8] then
    local place, places = '|' .. ttl .. '|' .. inbox .. '|unfenced', {unpack(ARGV, 8)}
    for i = 1, #places do places[i] = places[i] .. place end
    redis.call('ZREM', queue, unpack(places))
  end
  local first, second, third = unpack(redis.call('ZRANGE', queue, '0', '2'))
  if not first then
    redis.call('DEL', lock, claim)
    return 1
  end
  -- Splits the member as MEMBER does.
  local bar = string.find(first, '|', 2, true)
  local next_ttl = bar and string.match(first, '^([1-9]%d*)|', bar + 1)
  if next_ttl then
    local next_token, begins = string.sub(first, 1, bar - 1), bar + #next_ttl + 2
    local ends = string.find(first, '|', begins, true)
    local next_inbox, is_fenced = string.sub(first, begins, (ends or 0) - 1), not ends
    -- 100 is the last letter of `unfenced`: this way is not for a waiter of a counted lock, because others may get the
    -- lock with it.
    if next_token ~= token and (is_fenced or string.byte(first, -1) == 100)
      and listeners(next_inbox, next_token, lock) > 0 then
      -- The long way draws another fencing token if this one must be raised, or if the server refuses it: a full server
      -- allows INCR only to a script that has freed memory.
      local fence = is_fenced and redis.pcall('INCR', clock)
      if not fence or type(fence) == 'number' and fence >= (tonumber(floor) or LEAST) then
        local lasts, mark, at = next_ttl + 0 < CLAIM + 0 and next_ttl or CLAIM, second and '!' or '', time()
        -- In two parts, as in fence.lua.
        local rest = fence and fence % 1000000000
        fence = fence and string.format('%d%09d', (fence - rest) / 1000000000, rest) or '0'
        if second then redis.call('ZREM', queue, first) else redis.call('DEL', queue, claim) end
        local px = second and (lasts == CLAIM and CLAIM_AND_GRACE or string.format('%d', lasts + GRACE)) or lasts
        redis.call('SET', lock, next_token .. '=' .. seconds .. mark, 'PX', px)
        if second then redis.pcall('SET', claim, next_inbox, 'PX', QUEUE_TTL) end
        local followers = is_fenced and '' or followers_of(string.sub(first, bar), second, third)
        -- Compares the inboxes as first_behind.lua does.
        local its, to_tell = '|' .. next_inbox, {}
        for _, member in ipairs({second, third}) do
          local _, to = string.find(member, its, 1, true)
          local behind = to and string.byte(member, to + 1)
          if not to or behind and behind ~= 124 then to_tell[#to_tell + 1] = member end
        end
        -- If both waiters to notify are of its process, and another process releases, the first waiter of a third
        -- process gets the push.
        if third and next_inbox ~= inbox and not to_tell[1] then to_tell[1] = first_behind(next_inbox) end
        for i = 1, #to_tell do
          -- The first three parts of MEMBER.
          local its_token, its_inbox = string.match(to_tell[i], '^([^|]+)|[1-9]%d*|([^|]*)')
          if its_token then
            notify(its_inbox,
              'next|' .. its_token .. '|' .. lasts .. '|' .. at .. '||' .. lock)
          end
        end
        local told = notify(next_inbox,
          'granted|' .. next_token .. '|' .. fence .. '|' .. at .. '|' .. mark .. followers .. '|' .. lock)
        if type(told) == 'table' then
          redis.call('DEL', lock)
          must_notify(next_inbox, '')
        end
        return 1
      end
    end
  end
end

local leaves = true
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
-- Releases a lock that this token holds, or a token to which its process has passed the lock on. The longest waiter
-- gets it, or it is free. If none of these tokens holds the lock, they leave the queue.
-- passed_on: the tokens that its process has passed the lock on to
--- @with lock, queue, clock, claim, holders, permits, token, ttl, how, inbox, floor, kind, leaves, me, mine, number
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
-- Marks the lock with this value, holder and grace, unless it is marked already, or a foreign client's.
--- @with lock
local function set_mark(value, pttl, holder, grace)
  if not holder or grace > 0 then return end
  if pttl < 0 then return redis.call('SET', lock, value .. '!') end
  -- As text, because the server takes longer for a number than for the rest of the mark.
  redis.call('SET', lock, value .. '!', 'PX', string.format('%d', pttl + GRACE))
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
-- Removes the waiters of a process that let its lease end without a release: it is stuck.
--- @with lock, queue, claim, inbox
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
local function release(value, passed_on)
  if type(value) ~= 'string' then value = false end
  local holder, grace = parse(value)
  local unfenced, is_held, followers = kind == 'unfenced', holder == token, {}
  for i, its_token in ipairs(passed_on) do
    -- The server may have granted the lock to a follower whose place was left in the queue.
    is_held = is_held or holder == its_token and (i == #passed_on or not unfenced)
    followers[i] = its_token .. '|' .. ttl .. '|' .. inbox .. '|unfenced'
  end

  -- The first two waiters receive a push with the time at which to ask. If one of them leaves, this notifies the next
  -- ones: otherwise, if the other one dies, no waiter would ask. A foreign client releases without a push, so the new
  -- head asks now, and watches the lock from then on.
  local function leave_queue()
    local place = redis.call('ZRANK', queue, me) or 2
    for _, member in ipairs(followers) do place = math.min(place, redis.call('ZRANK', queue, member) or 2) end
    if place > 1 then return redis.call('ZREM', queue, me, unpack(followers)) end
    -- Without a mark, the lock was taken past its queue: the lease before it has ended without a release.
    if holder and grace == 0 then evict_stalled() end
    local gone, waiters = {[me] = true}, {}
    for _, member in ipairs(followers) do gone[member] = true end
    for _, member in ipairs(redis.call('ZRANGE', queue, 0, #followers + 2)) do
      if #waiters < 2 and not gone[member] then waiters[#waiters + 1] = member end
    end
    if #waiters == 0 then return redis.call('DEL', queue, claim) end
    redis.call('ZREM', queue, me, unpack(followers))
    local left = 0
    if holder then
      local pttl = redis.call('PTTL', lock)
      set_mark(value, pttl, holder, grace)
      left = math.max(without_grace(pttl, grace), 0)
    end
    notify_waiters(waiters, left, time(), '')
  end

  local is_counted = value and string.find(value, '^%%holders|%d+|%d+$')
  if not is_held and not is_counted then
    leave_queue()
    if holder or redis.call('EXISTS', lock) == 1 then return 0 end
  end

-- The most members that one call reads, in a few ms. If there are more, the client calls again at once.
local MOST = 2000
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
-- Hands a free lock to the longest waiter that is alive.
--- @with lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number
-- Says whether a waiter is alive: its inbox has a subscriber.
-- token: the caller   leaves: whether the caller leaves the queue, with any older place of its own under another tag of
-- its inbox
--- @with lock, token, leaves

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
local function notified_waiters()
  local waiters = first_two()
  local _, _, first = read(waiters[1])
  local _, _, second = read(waiters[2])
  if first and first == second then waiters[3] = first_behind(first) end
  return waiters
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
-- Puts the admitted callers inside. If the script fails in between, the lock counts nobody, and is free to all of us.
--- @with lock, clock, claim, holders, permits, floor
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

-- The first waiter whose inbox has a subscriber gets the lock; dead and malformed ones in front of it leave the queue.
-- Returns its token, and for how many ms it has the lock; nil if the queue is empty; false if the queue may be longer
-- than one call reads. If the token is the caller's, the lock is still free, and the second value is the waiters to
-- notify. If the first waiter is one of a counted lock, `admit_waiters` admits those that may be inside together.
-- The order of effects is safe if the server stops in the middle (out of memory, no permission): the waiter leaves the
-- queue, then the lock is set with its expiry, then the waiter receives its push.
local function grant_next()
  local looked, size = 0, 2
  while looked < MOST do
    -- The two members behind these are the waiters to notify.
    local members = redis.call('ZRANGE', queue, '0', size == 2 and '3' or size + 1)
    for i = 1, math.min(size, #members) do
      local next_token, next_ttl, next_inbox, kind = read(members[i])
      if next_token and is_there(next_token, next_inbox) then
        -- The letter n: a waiter of a counted lock.
        if string.byte(kind) == 110 then return admit_waiters() end
        local waiters = {members[i + 1], members[i + 2]}
        if #waiters > 0 then redis.call('ZPOPMIN', queue, i) else redis.call('DEL', queue, claim) end
        if next_token == token then return token, waiters end
        local lasts = grant_one(next_token, next_ttl, next_inbox, kind, waiters)
        return next_token, lasts
      end
    end
    if #members <= size then
      if #members > 0 then redis.call('DEL', queue, claim) end
      return nil
    end
    redis.call('ZREM', queue, unpack(members, 1, size))
    looked, size = looked + size, TOGETHER
  end
  return false
end
-- Admits the waiters that have room now, after a caller has left. If `admit_waiters` notifies nobody, this notifies the
-- first two waiters, provided that the one that left was one of them, or was inside. `score`: the end of its lease, if
-- it was inside. Returns false if the caller has to call again.
--- @with lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number
local function admit_next(place, score)
  local who, _, are_told = admit_waiters()
  if who and not are_told and (score or place and place < 2) then notify_each(first_two(), score) end
  if who == nil then
    -- As in release.lua.
    redis.call('DEL', lock)
    redis.pcall('DEL', holders)
    redis.pcall('DEL', claim)
  end
  return who ~= false
end
-- how: above '0' if other lock clients use the lock, too. They do not know its queue, and would never find it free
-- while it has waiters. So about one release in 128, by the microseconds of the server's time, leaves it free for a
-- moment, and notifies the first two waiters to ask again; if these are of one process, which may be stopped, also the
-- first waiter of another process. A release for followers counts for as many. A counter would not do: with one counter
-- for all locks, a lock that alternates with another might never be left free, and a counter for each lock would have
-- to be stored.
--- @with lock, queue, claim, how, token, leaves
local function leave_free()
  if how == '0' or time() % 128 >= tonumber(how) then return false end
  local told, first, are_of_one = 0, nil, true
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, TOGETHER - 1)) do
    local next_token, _, next_inbox = read(member)
    local is_told = told < 2 or are_of_one and next_inbox ~= first
    if next_token and is_told and is_there(next_token, next_inbox) then
      if told == 0 then redis.call('DEL', lock, claim) end
      notify(next_inbox, 'free|' .. next_token .. '|0|0||' .. lock)
      told, first = told + 1, first or next_inbox
      are_of_one = next_inbox == first
    end
  end
  return told > 0
end
  if not is_held and is_counted then
    if not read_holders(value) then return 2 end
    local place, score = redis.call('ZRANK', queue, me), nil
    redis.call('ZREM', queue, me, unpack(followers))
    -- A process that has forgotten its grant does not know its limit.
    for _, member in ipairs(place and {} or redis.call('ZRANGE', holders, 0, MOST - 1)) do
      if string.sub(member, 1, #token + 1) == token .. '|' then
        score = redis.call('ZSCORE', holders, member)
        inside = inside - redis.call('ZREM', holders, member)
      end
    end
    return not admit_next(place, score) and 2 or score and 1 or 0
  end
  if not is_held then
    -- The lock was deleted while callers wait. The first of them may be dead, and the others ask seldom.
    if not evict_stalled() or grant_next() == false then return 2 end
    return 0
  end
  redis.call('ZREM', queue, me, unpack(followers))
  if leave_free() then return 1 end
  local next_holder = grant_next()
  if next_holder == false then return 2 end
  -- This deletes the lock first, and alone: while a slot of a Cluster moves, the server refuses a command that names a
  -- key that does not exist.
  if not next_holder then
    redis.call('DEL', lock)
    redis.pcall('DEL', claim)
  end
  return 1
end
return release(value, {unpack(ARGV, 8)})
end
-- Only these arguments: release.lua would take ARGV[8] and so on for tokens.
local function release_it() return release(KEYS, {unpack(ARGV, 1, 7)}) end
return end_tick(release_it, KEYS[1], ARGV[1], KEYS[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11])
