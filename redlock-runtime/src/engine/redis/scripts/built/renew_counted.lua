-- One of several that have a counted lock moves the end of its lease, and not to an earlier time. One that has the lock alone, as an
-- older version of a client has granted it, renews it, as renew.lua. Without another key: while a slot of a Cluster moves, what
-- names a key that does not exist is refused.
-- KEYS[1] the lock   KEYS[2] its holders   ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] ''   ARGV[4] inbox   ARGV[5] as ARGV[7] of
-- acquire_counted.lua
-- Returns 1, or 0 when it is not inside.
-- Idempotent: a second call renews, too.
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

local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(value) == 'table' then value = redis.call('GET', KEYS[1]) end
if value and string.byte(value) == 37 then
  local inbox = ARGV[4]
  if string.byte(inbox, -1) == 125 then inbox = string.gsub(inbox, '{%d+}$', '') end
  local member = ARGV[1] .. '|' .. string.sub(ARGV[5], 2) .. '|' .. inbox
  local score = redis.call('ZSCORE', KEYS[2], member)
  if not score then return 0 end
  local now_ms = string.sub(time(), 1, -4)
  local ends = math.max(now_ms + ARGV[2] + 1, math.floor(score))
  local text, lasts = string.format('%.0f', ends), ends - now_ms
  -- A full server refuses it, but not behind what it allows.
  if type(redis.pcall('ZADD', KEYS[2], text, member)) == 'table' then
    redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[2]))
    redis.call('ZADD', KEYS[2], text, member)
  end
  if redis.call('PTTL', KEYS[1]) < lasts + GRACE then
    local px = string.format('%.0f', lasts + GRACE + math.floor(lasts / 3))
    redis.call('PEXPIRE', KEYS[1], px)
    redis.call('PEXPIRE', KEYS[2], px)
  end
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
return (extend(KEYS[1], ARGV[1], ARGV[2]))
