-- One that has a lock alone has it together with others from now on. No other one has it alone in between. Those in front of the queue
-- that may be inside together with it enter.
-- KEYS as in acquire_counted.lua   ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] its fencing token, or '0': one is drawn
-- ARGV[4] inbox   ARGV[5] the ttl in the place in the queue that it may have, and ARGV[8] 'unfenced' if that draws no fencing token
-- ARGV[6] the floor of fence.lua   ARGV[7] as in acquire_counted.lua
-- Returns the fencing token of all that are inside, or 0 when this token does not hold the lock, or {3} when the caller has to call
-- again.
-- Idempotent by token: a second call finds it inside, and renews its lease.
local lock, queue, clock, claim, holders, permits = unpack(KEYS)
local token, ttl, fence, inbox, place_ttl, floor, kind, place_kind = unpack(ARGV)
local leaves = true
--- @include "grace"
--- @include "value_of"
--- @include "parse"
--- @include "fence"
--- @include "without_grace"
--- @include "mine" (token, inbox, kind)
--- @include "counted" (holders, permits)
--- @include "read_holders" (lock, queue, holders, permits, inbox)
--- @include "extend_counted" (lock, holders)
--- @include "admit_waiters" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)

local value = value_of(lock)
local holder, grace = parse(value)
if holder == token then
  local lasts = math.max(tonumber(ttl), without_grace(redis.call('PTTL', lock), grace)) + 1
  -- First what a full server allows: it allows the rest of the script then. As long as the lock is this token's, nobody looks at the
  -- holders, which may be left from a lock that was deleted. Where access rules refuse one of these, nothing is changed.
  redis.call('DEL', holders)
  redis.call('ZADD', holders, 'XX', '0', '')
  redis.call('ZCARD', holders)
  redis.call('ZRANGE', holders, '0', '0')
  redis.call('ZREM', holders, '')
  redis.call('ZSCORE', holders, '')
  phase = fence ~= '0' and fence or string.format('%.0f', next_fence(clock, floor))
  local px = string.format('%.0f', lasts + GRACE + math.floor(lasts / 3))
  redis.call('ZADD', holders, string.format('%.0f', now_ms() + lasts), mine)
  local expires = redis.pcall('PEXPIRE', holders, px)
  if type(expires) == 'table' then
    redis.call('DEL', holders)
    return expires
  end
  written, limit, inside = '%holders|' .. number .. '|' .. phase, number, 1
  redis.call('SET', lock, written, 'PX', px)
  redis.pcall('DEL', claim)
else
  if not read_holders(value) then return {3} end
  local score = limit and redis.call('ZSCORE', holders, mine)
  if not score then return 0 end
  local ends = math.max(now_ms() + ttl + 1, math.floor(score))
  extend_counted(ends - now_ms(), false, redis.call('PTTL', lock))
  -- First what a full server allows.
  redis.call('PEXPIRE', holders, redis.call('PTTL', holders))
  redis.call('ZADD', holders, string.format('%.0f', ends), mine)
end
-- A place of its own would keep out those behind it.
redis.call('ZREM', queue, token .. '|' .. place_ttl .. '|' .. inbox .. (place_kind == '' and '' or '|' .. place_kind))
if admit_waiters(0) == false then return {3} end
return tonumber(phase)
