-- Moves the end of the lease of one holder of a counted lock, and not to an earlier time. If an older client has
-- granted the lock to this token alone, this renews it as renew.lua does. It names no other key: while a slot of a
-- Cluster moves, the server refuses a command that names a key that does not exist.
-- KEYS[1] the lock   KEYS[2] its holders   ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] ''   ARGV[4] inbox   ARGV[5] as ARGV[7] of
-- acquire_counted.lua
-- Returns 1, or 0 if this token is not inside.
-- Idempotent: a second call renews, too.
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
  -- A full server refuses ZADD, unless a command that it allows comes first.
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
return (extend(KEYS[1], ARGV[1], ARGV[2]))
