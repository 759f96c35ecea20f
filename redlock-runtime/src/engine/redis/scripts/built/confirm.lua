-- A write behind the grant of a lock, for WAIT: it moves the expiry of a lock that this token holds.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: a second call renews, too, and never to an earlier time.
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
  local holder, grace = parse(value)
  if holder ~= token then return 0 end
  local lasts, left = tonumber(ttl), without_grace(redis.call('PTTL', lock), grace)
  if not exactly then lasts = math.max(lasts, left) end
  redis.call('PEXPIRE', lock, lasts + grace)
  return 1, lasts, grace
end
return (extend(KEYS[1], ARGV[1], ARGV[2]))
