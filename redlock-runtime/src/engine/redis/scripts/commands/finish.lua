-- Releases a lock whose body runs once, as release.lua does, and stores the result in the same step.
-- KEYS[1] to KEYS[6] as in acquire.lua   KEYS[7] the record: see once.lua
-- ARGV[1] to ARGV[7] as in release.lua
-- ARGV[8] the fingerprint of the request, or '-'   ARGV[9] how long the record lasts in ms   ARGV[10] the runner
-- ARGV[11] 'done': ARGV[12] is the result, which is stored; 'undone': the body has not run, or has failed, and may run again;
-- 'interrupted': it has begun
-- Returns what release.lua returns.
-- Idempotent by token, as release.lua: a result that is stored is not stored again.
local lock, queue, clock, claim, holders, permits, record = unpack(KEYS)
local token, ttl, how, inbox, _, floor, kind = unpack(ARGV, 1, 7)
inbox, kind = inbox or '', kind or ''
--- @include "value_of"
--- @include "store_result" (token, record)
local value = value_of(lock)
local answer, is_held, is_done = store_result(value, ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12])
if answer then return answer end
-- The short way, for a lock without waiters: its value has no mark. As in release.lua.
if value == token then return redis.call('DEL', lock) end

--- @include "together"
--- @include "read"
--- @include "notify"

-- The waiters for the result leave the queue, and get a push. The next waiter behind them gets the lock, and releases
-- it in the same way.
if is_held and is_done then
  local gone = {}
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, TOGETHER - 1)) do
    local _, _, _, its_kind = read(member)
    if its_kind == 'once' then gone[#gone + 1] = member end
  end
  if #gone > 0 then redis.call('ZREM', queue, unpack(gone)) end
  for _, member in ipairs(gone) do
    local next_token, _, next_inbox = read(member)
    notify(next_inbox, 'done|' .. next_token .. '|0|0||' .. lock)
  end
end

local leaves = true
--- @include "me" (token, ttl, inbox, kind)
--- @include "mine" (token, inbox, kind)
--- @include "release" (lock, queue, clock, claim, holders, permits, token, ttl, how, inbox, floor, kind, leaves, me, mine, number)
return release(value, {})
