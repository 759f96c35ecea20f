-- Takes its place from one of several that hold a counted lock, for an operator: those enter that have room now, and the one that has
-- lost its place receives a push. The others keep theirs.
-- KEYS as in acquire_counted.lua   ARGV[1] its token   ARGV[4] the inbox of the operator   ARGV[6] the floor of fence.lua
-- Returns 1; or 0 when it was not inside; or 2 when the caller has to call again.
-- Idempotent by token: a second call does not find it, and takes nothing from those that have entered since.
local lock, queue, clock, claim, holders = unpack(KEYS)
local revoked, inbox, floor = ARGV[1], ARGV[4], ARGV[6]
local token, leaves, mine, number = '', false, '', 1
--- @include "value_of"
--- @include "notify"
--- @include "counted" (holders)
--- @include "read_holders" (lock, queue, holders, inbox)
--- @include "admit_next" (lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number)

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
