-- Moves the expiry of several locks, each if its token holds it, and never to an earlier time. Reads all of them at the
-- end: a client with tracking watches these reads, and our own writes would have ended the watch.
-- KEYS the locks   ARGV for each its token and its ttl in ms (above zero: PEXPIRE 0 would delete)
-- Returns for each 1, or 0 when another token holds the lock, or -1 when it is free.
-- Idempotent: a second call renews, too.
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

-- With GT this is one command, and one read less: a server before 7.2 tracks each read for all keys of the call. A
-- server before 7.0 does not know GT; and 0 is also the answer for a key that never expires.
local knows_gt = true
local function extend_to(key, px)
  local answer = knows_gt and redis.pcall('PEXPIRE', key, px, 'GT')
  if answer == 1 then return 1 end
  knows_gt = type(answer) == 'number'
  return redis.call('PEXPIRE', key, math.max(px, redis.call('PTTL', key)))
end

local answers = {}
for i, key in ipairs(KEYS) do
  local value, token, grace = redis.pcall('GETRANGE', key, '0', '512'), ARGV[2 * i - 1], 0
  if type(value) == 'table' then value = redis.call('GET', key) end
  if value == '' then value = false end
  if value and value ~= token then
    local holder
    holder, grace = parse(value)
    value = holder or value
  end
  if value == token then
    -- As text if possible: a server before 7.2 takes longer for a number among the arguments of a command.
    local px = ARGV[2 * i]
    answers[i] = extend_to(key, grace > 0 and string.format('%d', px + grace) or px)
  else
    answers[i] = value and 0 or -1
  end
end
redis.call('EXISTS', unpack(KEYS))
return answers
