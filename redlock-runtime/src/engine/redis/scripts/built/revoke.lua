-- Takes its place from one of several that hold a counted lock, for an operator: those enter that have room now, and the one that has
-- lost its place receives a push. The others keep theirs.
-- KEYS as in acquire_counted.lua   ARGV[1] its token   ARGV[4] the inbox of the operator   ARGV[6] the floor of fence.lua
-- Returns 1; or 0 when it was not inside; or 2 when the caller has to call again.
-- Idempotent by token: a second call does not find it, and takes nothing from those that have entered since.
local lock, queue, clock, claim, holders = unpack(KEYS)
local revoked, inbox, floor = ARGV[1], ARGV[4], ARGV[6]
local token, leaves, mine, number = '', false, '', 1
-- Returns the value of a lock, as much of it as is needed: see shown.lua; or false for a lock that does not exist.
-- Access rules may forbid GETRANGE; any error of GET is raised.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '512')
  if type(value) == 'table' then return redis.call('GET', key) end
  return (value ~= '' or redis.call('EXISTS', key) == 1) and value
end
-- Publishes to an inbox, which is a channel.

-- Returns an error, as redis.pcall does.
local function notify(inbox, text)
  return redis.pcall('PUBLISH', inbox, text)
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
-- Members that are read together.
local TOGETHER = 250
-- The inbox of a process in a Cluster ends with the tag of a slot, which changes when that slot moves.
local function without_tag(inbox)
  return string.byte(inbox, -1) == 125 and string.gsub(inbox, '{%d+}$', '') or inbox
end
-- All waiters of stuck processes leave the queue.
--- @with queue
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
-- Behind one that has left: those enter that have room now. If `admit_waiters` tells nobody, the first two are told, if it had a place among
-- them or was inside, with this score. Returns false when the caller has to call again.
--- @with lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number
-- Returns the waiters to tell.
--- @with queue
local function first_two()
  return redis.call('ZRANGE', queue, '0', '1')
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
-- Tells the first two waiters, because one may be dead, how long the lock lasts that is in front of them: then they ask again.
-- The claimant, the inbox of a waiter that was granted the lock, is told of the grant, and needs no hint. If both are of that
-- process, the first waiter of another process is told, because a stuck process does not ask. A process that hands a lock to
-- itself, with this inbox, is not stuck.
--- @with lock, queue, inbox
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
local function notify_each(members, score)
  for _, member in ipairs(members) do
    local _, _, _, its_kind = read(member)
    if its_kind then
      local left = left_for(number_of(its_kind))
      if not score or math.ceil(score - now_ms()) >= left then notify_waiters({member}, left, time(), '') end
    end
  end
end
-- Those in front of the queue enter, as long as they may be inside together, each for a claim; the caller for `lasts`. An exclusive
-- one gets a lock in which nobody is. Dead and malformed ones in front leave the queue.
-- mine: the member of the caller among the holders   number: how many it allows
--- @with lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number
-- A granted waiter has to claim its lock by a renewal within this time, in ms: a stuck waiter costs the others no more. As text:
-- the server takes longer over a number among the arguments of a command.
local CLAIM = '1000'
-- Returns all that may have been told of the claim of the holder, whose process is the one of both if it is that of the first two.
--- @with queue
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
-- Draws a fencing token.
-- clock: the key of the clock of fencing tokens, one per server
-- floor: a clock below it is raised to the server's time; empty for LEAST. A floor that ends with .5 is a fencing token that the
--        caller has seen, and a half: the clock is raised above it, whatever the server's time is.
-- No fencing token is less, unless the clock has lost its data: below all times of this age, in us.
local LEAST = 1000000000000000

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
-- Returns what stands behind the token in the value of a lock that is granted now, to one that has waited for it.
local function granted_now()
  time()
  return '=' .. seconds
end
-- As notify.lua, and raises an error, as redis.call does.
local function must_notify(inbox, text)
  redis.call('PUBLISH', inbox, text)
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
-- The key of a marked lock stays for this long after its lease, in ms: until the head of the queue has asked, no other
-- client finds it free. So does the key of a counted lock.
local GRACE = 100
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
-- Those that were admitted are inside now. In between, a script that fails leaves a lock that counts nobody: free to all of us.
--- @with lock, clock, claim, holders, floor
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

if not read_holders(value_of(lock)) then return 2 end
local member
for _, one in ipairs(limit and redis.call('ZRANGE', holders, 0, -1) or {}) do
  if string.sub(one, 1, #revoked + 1) == revoked .. '|' then member = one end
end
if not member then return 0 end
local score = redis.call('ZSCORE', holders, member)
inside = inside - redis.call('ZREM', holders, member)
if not admit_next(nil, score) then
  -- So that the next call finds it, too.
  redis.call('ZADD', holders, score, member)
  return 2
end
-- In a Cluster its process has its inbox in the slot in which the operator has its own, unless slots have just moved. Without a push, the holder
-- detects the loss at its next renewal.
local its_inbox, home = string.match(member, '|([^|]*)$'), string.match(inbox, '{%d+}$') or ''
notify(its_inbox .. home, 'revoked|' .. revoked .. '|0|0||' .. lock)
return 1
