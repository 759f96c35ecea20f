-- A counted lock, which several have at a time. Behind fence.lua, stuck.lua, give.lua and grant.lua.
--
-- Each caller names how many it allows inside at a time, itself included: 1 for an exclusive one, 0 for any number. One may enter
-- when fewer are inside than it and each of them allows.
--
-- KEYS[5] the holders, a sorted set. Member: token|how many it allows|inbox, without a tag; score: when its lease ends, in ms of the
--         server's time, and half a ms behind it if its process lets it end
--         An exclusive caller that knows of none leaves them out, and calls again where there are some
-- The value of the lock is %holders|the least that one of them allows|their fencing token. They have the same one: it counts phases,
-- from the first that enters a free lock to the last that leaves. The key lasts for the grace longer than the last of them.
local holders = KEYS[5]

-- Zero is more than any other number.
local function least(one, other)
  if one == 0 then return other elseif other == 0 then return one end
  return math.min(one, other)
end

-- 1 for an exclusive waiter.
local function number_of(its_kind)
  return tonumber(string.match(its_kind, '^n(%d+)$')) or 1
end

-- What the lock says, and of it: the least that one of them allows, or one that has left. How many are inside, and of them those
-- that are not written yet.
local written, limit, phase, inside, entering, entering_least = nil, nil, nil, 0, {}, 0
local mine = token .. '|' .. number_of(kind) .. '|' .. without_tag(ARGV[4] or '')

local function now_ms()
  return string.sub(time(), 1, -4)
end

-- Reads who is inside. Those whose lease is over leave. Without a release, as drop_stuck says, so do the waiters of their processes.
-- Returns false when the caller has to call again.
local function look(value)
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
      local inbox = string.match(found[i], '|([^|]*)$')
      -- A member of another form has none.
      if inbox and found[i + 1] % 1 == 0 and inbox ~= without_tag(ARGV[4] or '') then stuck[inbox] = true end
    end
    if next(stuck) then
      local inboxes = drop(stuck)
      if not inboxes then return false end
      for inbox in pairs(inboxes) do redis.pcall('PUBLISH', inbox, 'gone||0|0||' .. lock) end
    end
    if #over > 0 then redis.call('ZREM', holders, unpack(over)) end
    if #over < size then break end
    size = TOGETHER
  end
  inside = redis.call('ZCARD', holders)
  return true
end

local function has_room(number)
  if inside == 0 then return true end
  if limit ~= 0 and (number == 0 or limit < number) then
    -- Somebody allowed fewer than this one does. It may have left.
    limit = entering_least
    for _, member in ipairs(redis.call('ZRANGE', holders, 0, -1)) do
      limit = least(limit, tonumber(string.match(member, '|(%d+)|')) or 1)
    end
  end
  local most = least(number, limit)
  return most == 0 or inside < most
end

-- When there is room for this number, unless those inside renew or leave. In ms from now.
local function left_for(number)
  local at = math.max(inside - math.max(least(number, limit), 1), 0)
  local ends = redis.call('ZRANGE', holders, at, at, 'WITHSCORES')[2]
  return ends and math.max(math.ceil(ends - now_ms()), 0) or 0
end

-- As the holder in an answer: the value of the lock, and how many are inside.
local function who_is_inside()
  return '%holders|' .. limit .. '|' .. phase .. '|' .. inside
end

-- Who keeps out a caller that allows this number: the member of the one whose end makes room, and, where there is room, that of the
-- first waiter, which the caller does not pass. '' for none.
local function who_keeps_out(number)
  local at = math.max(inside - math.max(least(number, limit), 1), 0)
  local holder = redis.call('ZRANGE', holders, at, at)[1] or ''
  local waiter = has_room(number) and redis.call('ZRANGE', queue, '0', '0')[1] or ''
  return {string.sub(holder, 1, SHOWN), string.sub(waiter, 1, SHOWN)}
end

local function admit(member, number, lasts)
  limit = inside == 0 and number or least(limit, number)
  inside, entering_least = inside + 1, least(entering_least, number)
  entering[#entering + 1] = string.format('%.0f', now_ms() + lasts + 1)
  entering[#entering + 1] = member
  entering.lasts = math.max(entering.lasts or 0, lasts + 1)
end

-- Makes the key last for so many ms, and a third more: so it changes seldom, and those that watch it are told seldom. Before it, the
-- holders: where access rules forbid that, those that are inside would leave with a set that ends before the key.
local function keep(lasts, value, has)
  local px = lasts + GRACE
  if not value and has >= px then return end
  px = string.format('%.0f', math.max(px + math.floor(lasts / 3), has))
  if has > 0 then redis.call('PEXPIRE', holders, px) end
  if value then redis.call('SET', lock, value, 'PX', px) else redis.call('PEXPIRE', lock, px) end
  return px
end

-- The key need not last for much longer than the last of those inside: one lets its lease end sooner than it was to.
local function shorten()
  local last = redis.call('ZRANGE', holders, '-1', '-1', 'WITHSCORES')[2]
  local lasts = math.max(math.ceil(last - now_ms()), 0) + GRACE
  if redis.call('PTTL', lock) <= lasts + math.floor(lasts / 3) then return end
  local px = string.format('%.0f', lasts)
  redis.call('PEXPIRE', lock, px)
  redis.call('PEXPIRE', holders, px)
end

-- Those that were admitted are inside now. In between, a script that fails leaves a lock that counts nobody: free to all of us.
local function enter()
  if #entering == 0 then return end
  local is_first = inside == #entering / 2
  if is_first then phase = string.format('%.0f', next_fence()) end
  local value = '%holders|' .. limit .. '|' .. phase
  local px = keep(entering.lasts, value ~= written and value, is_first and 0 or redis.call('PTTL', lock))
  -- What was there before, if the lock was deleted.
  if is_first then redis.call('DEL', holders, claim) end
  local added = type(redis.pcall('ZADD', holders, unpack(entering))) ~= 'table'
  -- Nobody is inside without a member, and a set that may not get its expiry would stay for ever.
  local is_undone = is_first and not (added and type(redis.pcall('PEXPIRE', holders, px)) ~= 'table')
  if is_undone then
    redis.call('DEL', lock, holders)
    -- This or the next one runs into the same error again.
    redis.call('PEXPIRE', lock, px)
  end
  if not added then redis.call('ZADD', holders, unpack(entering)) end
  if is_undone then
    -- The server allows now what it has just refused. The lock is gone.
    redis.call('DEL', holders)
    error({err = 'TRYAGAIN the server has refused to count a caller'})
  end
  written, entering, entering_least = value, {}, 0
end

-- So many one call lets in at most.
local IN_ONE = 250

-- The first two may be told of another time each. If both are of one process, which may be stuck, another one is told, too.
-- `score`: of one that has left; if it was to end later than what they were told, nothing changes for them.
local function tell_each(members, score)
  for _, member in ipairs(members) do
    local _, _, _, its_kind = read(member)
    if its_kind then
      local left = left_for(number_of(its_kind))
      if not score or math.ceil(score - now_ms()) >= left then tell({member}, left, time(), '') end
    end
  end
end

-- Those in front of the queue enter, as long as they may be inside together, each for a claim; the caller for `lasts`. An exclusive
-- one gets a lock in which nobody is. Dead and malformed ones in front leave the queue.
-- Returns what `grant` returns: the caller's token, when it is inside, or may take the lock for itself alone; the token of who has
-- it alone, and for how many ms; nil when nobody is inside and the queue is empty; false when the caller has to call again. Else
-- who_is_inside(), and what is left for the caller. Behind them: whether those that are the first two now were told.
let_in = function(lasts)
  if not holders then return false end
  local looked, size, granted, is_inside, is_over = 0, 2, {}, false, false
  while looked < MOST and not is_over do
    local members, gone = redis.call('ZRANGE', queue, 0, size - 1), 0
    for i, member in ipairs(members) do
      local next_token, next_ttl, next_inbox, its_kind = read(member)
      if next_token and is_there(next_token, next_inbox) then
        local number = number_of(its_kind)
        is_over = not has_room(number)
        if is_over then break end
        if number == 1 then
          redis.call('ZPOPMIN', queue, i)
          local waiters = first_two()
          if #waiters == 0 then redis.call('DEL', claim) end
          if next_token == token then return token, waiters end
          return next_token, give(next_token, next_ttl, next_inbox, its_kind, waiters), true
        end
        is_over = #granted == IN_ONE
        if is_over then
          -- It asks at once, and goes on.
          redis.pcall('PUBLISH', next_inbox, 'free|' .. next_token .. '|0|0||' .. lock)
          break
        end
        if next_token == token then
          is_inside = true
          admit(mine, number, lasts)
        else
          admit(next_token .. '|' .. number .. '|' .. without_tag(next_inbox), number, math.min(next_ttl, CLAIM))
          granted[#granted + 1] = {next_token, next_inbox}
        end
      end
      gone = i
    end
    if gone > 0 then redis.call('ZPOPMIN', queue, gone) end
    have_left = have_left or gone > 0
    enter()
    is_over = is_over or #members < size
    looked, size = looked + gone, TOGETHER
  end
  if have_left and inside > 0 then
    local waiters = first_two()
    local _, _, first = read(waiters[1])
    tell_each(first == ARGV[4] and waiters or all_told())
  end
  for _, its in ipairs(granted) do
    redis.pcall('PUBLISH', its[2], 'granted|' .. its[1] .. '|' .. phase .. '|' .. time() .. '||' .. lock)
  end
  if is_inside then return token end
  if not is_over then return false end
  if inside == 0 then return nil end
  return who_is_inside(), left_for(number_of(kind)), have_left
end

-- Behind one that has left: those enter that have room now. If `let_in` tells nobody, the first two are told, if it had a place among
-- them or was inside, with this score. Returns false when the caller has to call again.
local function let_others_in(place, score)
  local who, _, are_told = let_in()
  if who and not are_told and (score or place and place < 2) then tell_each(first_two(), score) end
  if who == nil then
    -- As in release.lua.
    redis.call('DEL', lock)
    redis.pcall('DEL', holders)
    redis.pcall('DEL', claim)
  end
  return who ~= false
end

