-- Moves the expiry of several locks, each if its token holds it, and never to an earlier time. Reads all of them at the
-- end: a client with tracking watches these reads, and our own writes would have ended the watch.
-- KEYS the locks   ARGV for each its token and its ttl in ms (above zero: PEXPIRE 0 would delete)
-- Returns for each 1, or 0 when another token holds the lock, or -1 when it is free.
-- Idempotent: a second call renews, too.
--- @include "parse"

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
