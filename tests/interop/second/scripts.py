"""The scripts of protocol version 1, written from chapter 5 of `docs/design.md`.

Their texts are not those of the Rust client: only what they do to keys, and what they publish, is the protocol. A script
is the words that all of them share, and its own behind them.
"""

import hashlib

# KEYS: lock, queue, clock, claim, holders, record. ARGV: token, ttl, how, inbox, number, floor, `unfenced` or `once`, the token of a
# ticket, or what belongs to a body that runs once. Only what a script needs is sent.
_COMMON = r"""
local call, try = redis.call, redis.pcall
local lock, queue, clock, claim = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttl, how, inbox = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] or ''
local kind = ARGV[7] or ''
local unfenced = kind == 'unfenced'
local me = token .. '|' .. ARGV[2] .. '|' .. inbox .. (kind ~= '' and '|' .. kind or '')
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end

-- What is in the lock: its value, the holder in it, when it was granted, whether it is a token, and whether it is marked.
local value = call('GETRANGE', lock, 0, 512)
local exists = value ~= '' or call('EXISTS', lock) == 1
local unmarked, mark = string.match(value, '^(.-)(!?)$')
local holder, granted = string.match(unmarked, '^(.*)(=%d+)$')
holder, granted = holder or unmarked, granted or ''
local granted_now = '=' .. time[1]
local is_token = #value <= 512 and string.find(holder, '^' .. string.rep('[%w_-]', 22) .. '@[%w._-]+:%d[%w_:./-]*$')
local marked = is_token and mark == '!'
if not is_token then holder = string.sub(value, 1, 512) end

local function left()
  local ms = call('PTTL', lock)
  if ms < 0 then return -1 end
  return marked and math.max(ms - 100, 0) or ms
end
local function over() return not exists or (marked and left() == 0) end

local function put(its_token, its_grant, lasts, its_inbox, stays)
  marked, exists, is_token, holder = stays or call('EXISTS', queue) == 1, true, true, its_token
  call('SET', lock, its_token .. its_grant .. (marked and '!' or ''), 'PX', text(marked and lasts + 100 or lasts))
  if marked then try('SET', claim, its_inbox, 'PX', 60000) end
end

local function set_mark()
  if not is_token or marked or not exists then return end
  local ms = call('PTTL', lock)
  if ms < 0 then call('SET', lock, value .. '!') else call('SET', lock, value .. '!', 'PX', ms + 100) end
  marked = true
end

local function next_fence(none)
  if none then return 0 end
  local fence, floor = call('INCR', clock), tonumber(ARGV[6] or '') or 1000000000000000
  if fence < floor then
    local at = fence > 1000000000000000 and now - 10000 or now
    if fence < at then
      fence = at
      call('SET', clock, text(fence))
    end
  end
  return fence
end

-- The token, the ttl and the inbox of a member, and '' if it draws a fencing token; nil when it is malformed.
local function parse(member)
  local its_token, ms, its_inbox, rest = string.match(member, '^([^|]+)|([1-9]%d*)|([^|]+)(.*)$')
  return its_token, tonumber(ms), its_inbox, rest
end

local function say(member, ms, besides)
  local its_token, _, its_inbox = parse(member)
  if not its_token or its_inbox == besides then return false end
  try('PUBLISH', its_inbox, 'next|' .. its_token .. '|' .. text(math.max(ms, 0)) .. '|' .. text(now) .. '||' .. lock)
  return true
end
local function say_to_first_behind(ms, besides)
  for _, member in ipairs(call('ZRANGE', queue, 2, 250)) do
    if say(member, ms, besides) then break end
  end
end
local function tell(ms, claimant)
  local first, told = call('ZRANGE', queue, 0, 1), false
  for _, member in ipairs(first) do told = say(member, ms, claimant) or told end
  if #first == 2 and not told and inbox ~= claimant then say_to_first_behind(ms, claimant) end
end

-- All that may have been told of another end of this lease.
local function tell_all(ms)
  tell(ms, '')
  local first = call('ZRANGE', queue, 0, 1)
  local _, _, one = parse(first[1] or '')
  local _, _, other = parse(first[2] or '')
  if one and one == other then say_to_first_behind(ms, one) end
end

local function drop_stuck()
  local stuck = call('GET', claim)
  if not stuck then return true end
  if stuck ~= inbox then
    local those, count = {}, 0
    local function leave()
      if #those > 0 then call('ZREM', queue, unpack(those)) end
      count, those = count + #those, {}
    end
    for _, member in ipairs(call('ZRANGE', queue, 0, 9999)) do
      local _, _, its_inbox = parse(member)
      if its_inbox == stuck then those[#those + 1] = member end
      if #those == 250 then leave() end
    end
    leave()
    if count > 5000 then return false end
    try('PUBLISH', stuck, 'gone||0|0||' .. lock)
  end
  call('DEL', claim)
  return true
end

-- The waiters behind the one that was granted the lock to which its process may pass it on.
local function followers(ms, its_inbox)
  local named, behind = '', '|' .. text(ms) .. '|' .. its_inbox .. '|unfenced'
  for _, member in ipairs(call('ZRANGE', queue, 0, 30)) do
    if string.sub(member, -#behind) ~= behind then break end
    named = named .. string.sub(member, 1, 22)
  end
  return named
end

-- Passes a free lock to the longest waiter that listens: its token; nil: there is none; false: to be called again.
local function grant()
  local read, size, listens = 0, 2, {}
  while read < 2000 do
    local members = call('ZRANGE', queue, 0, size + 1)
    for i = 1, math.min(size, #members) do
      local its_token, ms, its_inbox, rest = parse(members[i])
      if its_token and its_token ~= token and listens[its_inbox] == nil then
        listens[its_inbox] = call('PUBSUB', 'NUMSUB', its_inbox)[2] > 0
      end
      if its_token and (its_token == token or listens[its_inbox]) then
        if i == #members then call('DEL', queue, claim) else call('ZPOPMIN', queue, i) end
        if its_token == token then return token end
        local fence, lasts = next_fence(rest ~= ''), math.min(ms, 1000)
        put(its_token, granted_now, lasts, its_inbox)
        tell(lasts, its_inbox)
        local push = 'granted|' .. its_token .. '|' .. text(fence) .. '|' .. text(now) .. '|' .. (marked and '!' or '')
        if rest ~= '' then push = push .. followers(ms, its_inbox) end
        local sent = try('PUBLISH', its_inbox, push .. '|' .. lock)
        if type(sent) == 'table' and sent.err then
          call('DEL', lock)
          error(sent.err)
        end
        return its_token
      end
    end
    if #members <= size then
      call('DEL', queue, claim)
      return nil
    end
    for i = #members, size + 1, -1 do members[i] = nil end
    call('ZREM', queue, unpack(members))
    read, size = read + size, 250
  end
  return false
end
"""

_ACQUIRE = r"""
local number = tonumber(ARGV[5] or '') or 0
local waits, first = how ~= '0', how == 'join' or how == 'join_again'
local has_waited = waits and not first
local lasts = has_waited and math.min(ttl, 1000) or ttl

if not exists and (how == '0' or how == 'join') then
  call('SET', lock, token, 'NX', 'PX', text(ttl))
  local drawn, fence = pcall(next_fence, unfenced)
  if not drawn then
    call('DEL', lock)
    error(fence)
  end
  return fence
end

local function take(at_least, stays, since)
  local fence = next_fence(unfenced)
  since = since or (how == '0' or how == 'join') and '' or granted_now
  put(token, since, math.max(lasts, at_least), inbox, stays)
  return fence
end
local function place_lost()
  if has_waited and how ~= 'rejoin' then try('PUBLISH', inbox, 'gone|' .. token .. '|0|0||' .. lock) end
end
local function join()
  if not call('ZSCORE', queue, me) then
    place_lost()
    local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    call('ZADD', queue, text(math.max(now, (tonumber(last or '') or 0) + 1)), me)
  end
  call('PEXPIRE', queue, 60000)
end

if exists and holder == token then
  call('ZREM', queue, me)
  return take(left(), marked, granted)
end
if over() then
  if call('EXISTS', queue) == 0 then
    place_lost()
    return take(0)
  end
  if not drop_stuck() then return {3} end
end
local has_place = call('ZSCORE', queue, me)
if first and not has_place and call('ZCARD', queue) >= number then return {2, call('ZCARD', queue)} end
if not over() then
  if waits then
    local others = call('ZCARD', queue) > (has_place and 1 or 0)
    if others and is_token and not marked and not drop_stuck() then return {3} end
    join()
    set_mark()
  end
else
  if waits then join() end
  local next_holder = grant()
  if next_holder == false then return {3} end
  if next_holder == nil or next_holder == token then
    local fence = take(0)
    tell(lasts, inbox)
    return fence
  end
  holder = next_holder
end
local place = call('ZRANK', queue, me)
return {0, holder, left(), text(now), place or -1}
"""

RENEW = _COMMON + r"""
if not exists or holder ~= token then return 0 end
local lasts = how == 'exactly' and ttl or math.max(ttl, left())
call('PEXPIRE', lock, text(marked and lasts + 100 or lasts))
if how == 'exactly' and marked then
  call('DEL', claim)
  tell_all(lasts)
end
if KEYS[6] then
  local its_runner = string.match(call('GET', KEYS[6]) or '', '^[^|]*|s|%d+|([^|]*)|')
  local until_ms = ARGV[9] + lasts + 100
  if its_runner == ARGV[10] and call('PTTL', KEYS[6]) < until_ms then call('PEXPIRE', KEYS[6], text(until_ms)) end
end
return 1
"""

REDEEM = _COMMON + r"""
if over() then return -2 end
if holder ~= token and holder ~= ARGV[8] then return -1 end
local fence, lasts, since = next_fence(unfenced), ttl, granted_now
if holder == token then lasts, since = math.max(ttl, left()), granted end
put(token, since, lasts, inbox, marked)
tell_all(lasts)
return fence
"""

_RELEASE = r"""
if exists and holder == token and not marked then
  call('DEL', lock)
  return 1
end
if not exists or holder ~= token then
  local place = call('ZRANK', queue, me)
  if place and place < 2 then
    if is_token and not marked then drop_stuck() end
    call('ZREM', queue, me)
    if call('EXISTS', queue) == 0 then
      call('DEL', claim)
    else
      set_mark()
      tell(is_token and left() or 0, '')
    end
  elseif place then
    call('ZREM', queue, me)
  end
  if not exists and (not drop_stuck() or grant() == false) then return 2 end
  return 0
end
call('ZREM', queue, me)
local next_holder = grant()
if next_holder == false then return 2 end
if next_holder == nil then call('DEL', lock, claim) end
return 1
"""

ACQUIRE, RELEASE = _COMMON + _ACQUIRE, _COMMON + _RELEASE

_ONCE = _COMMON + r"""
local record, fingerprint, lasts_ms, runner, policy = KEYS[6], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local was, state, since, its_runner, owner, result
local function read()
  was, state, since, its_runner, owner, result =
    string.match(call('GET', record) or '', '^([^|]*)|([sd])|(%d+)|([^|]*)|([^|]*)|(.*)$')
end
local function write(its_state, its_result)
  local at, by = text(math.floor(now / 1000)), string.sub(token, 24)
  local px = its_state == 's' and text(lasts_ms + ttl + 100) or lasts_ms
  call('SET', record, table.concat({fingerprint, its_state, at, runner, by, its_result}, '|'), 'PX', px)
end
read()
"""

ACQUIRE_ONCE = _ONCE + "local function acquire()" + _ACQUIRE + r"""end
local kept = (exists and holder == token or call('ZSCORE', queue, me)) and 1 or 0
if was and was ~= fingerprint then return {5, kept} end
if state == 'd' then return {6, kept, result} end
local answer = acquire()
if type(answer) == 'number' and its_runner ~= runner then
  if was and policy == 'error' then return {7, 1, since, owner} end
  write('s', '')
end
return answer
"""

FINISH = _ONCE + "local function release()" + _RELEASE + r"""end
if not exists or holder ~= token then
  if policy == 'done' and state == 'd' and its_runner == runner then return 1 end
else
  if policy == 'done' then write('d', ARGV[12]) end
  if policy == 'undone' and state == 's' and its_runner == runner then call('DEL', record) end
  read()
  if state == 'd' then
    for _, member in ipairs(call('ZRANGE', queue, 0, 249)) do
      local its_token, _, its_inbox, rest = parse(member)
      if its_token and rest == '|once' then
        call('ZREM', queue, member)
        try('PUBLISH', its_inbox, 'done|' .. its_token .. '|0|0||' .. lock)
      end
    end
  end
end
return release()
"""

# Raises the clock of fencing tokens to the server's time less 10 ms, and returns it.
RAISE = _COMMON + "return next_fence()"

SHA = {script: hashlib.sha1(script.encode()).hexdigest() for script in (ACQUIRE, RENEW, REDEEM, RELEASE, ACQUIRE_ONCE, FINISH)}
