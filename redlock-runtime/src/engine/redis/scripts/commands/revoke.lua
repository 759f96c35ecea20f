-- Removes one holder from a counted lock, for an operator. The waiters that have room now enter, and the removed holder
-- receives a push. The other holders keep the lock.
-- KEYS as in acquire_counted.lua   ARGV[1] the token of the holder   ARGV[4] the inbox of the operator   ARGV[6] the
-- floor of fence.lua
-- Returns 1; or 0 if this token was not inside; or 2 if the caller has to call again.
-- Idempotent by token: a second call does not find this token, and removes nobody that has entered since.
local lock, queue, clock, claim, holders, permits = unpack(KEYS)
local revoked, inbox, floor = ARGV[1], ARGV[4], ARGV[6]
local token, leaves, mine, number = '', false, '', 1
--- @include "value_of"
--- @include "notify"
--- @include "counted" (holders, permits)
--- @include "read_holders" (lock, queue, holders, permits, inbox)
--- @include "admit_next" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)

if not read_holders(value_of(lock)) then return 2 end
local member
for _, one in ipairs(limit and redis.call('ZRANGE', holders, 0, -1) or {}) do
  if string.sub(one, 1, #revoked + 1) == revoked .. '|' then member = one end
end
if not member then return 0 end
local score = redis.call('ZSCORE', holders, member)
inside = inside - redis.call('ZREM', holders, member)
if not admit_next(nil, score) then
  -- The next call must find this holder, too.
  redis.call('ZADD', holders, score, member)
  return 2
end
-- In a Cluster, the inbox of its process has the same slot as the operator's inbox, unless slots have just moved.
-- Without a push, the holder detects the loss at its next renewal.
local its_inbox, home = string.match(member, '|([^|]*)$'), string.match(inbox, '{%d+}$') or ''
notify(its_inbox .. home, 'revoked|' .. revoked .. '|0|0||' .. lock)
return 1
