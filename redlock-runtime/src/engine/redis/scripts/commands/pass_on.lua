-- Writes who holds a lock that its process has passed on: its value becomes the token of the holder, and the earlier
-- holders of the process leave the queue. Renews the lock, too.
-- KEYS[1] the lock   KEYS[2] its queue   KEYS[4] the claim
-- ARGV[1] the token that holds the lock on the server, as far as the client knows   ARGV[2], ARGV[3] as in renew.lua
-- ARGV[4] the inbox of the process   ARGV[5] the ttl in their places in the queue; empty if they have none
-- ARGV[6] and so on: the tokens that the process has passed the lock on to, one after the other; the last one holds it
-- now
-- Returns 1, or 0 when none of all these tokens holds the lock.
-- Idempotent: a second call finds the last token, and renews.
local lock, queue, claim, inbox = KEYS[1], KEYS[2], KEYS[4], ARGV[4]
--- @include "time"
--- @include "value_of"
--- @include "parse"
--- @include "without_grace"
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "notified_waiters" (queue)
local holder, grace, granted = parse(value_of(lock))
local has_places, is_held, places = ARGV[5] ~= '', holder == ARGV[1], {}
for i = 6, #ARGV do
  -- As in release.lua.
  is_held = is_held or holder == ARGV[i] and (i == #ARGV or not has_places)
  places[i - 5] = ARGV[i] .. '|' .. ARGV[5] .. '|' .. inbox .. '|unfenced'
end
if not is_held then return 0 end
local lasts, to_ticket = tonumber(ARGV[2]), ARGV[3] == 'ticket'
local exactly = to_ticket or ARGV[3] == 'exactly'
if not exactly then lasts = math.max(lasts, without_grace(redis.call('PTTL', lock), grace)) end
-- This comes first, because a full server allows it, and then the rest of the script.
redis.call('PEXPIRE', lock, lasts + grace)
if has_places then redis.call('ZREM', queue, unpack(places)) end
if to_ticket or holder ~= ARGV[#ARGV] then granted = (to_ticket and '=0' or '=') .. string.sub(time(), 1, -7) end
redis.call('SET', lock, ARGV[#ARGV] .. granted .. (grace > 0 and '!' or ''), 'PX', string.format('%d', lasts + grace))
-- Waiters that have left had received the time to ask, so the next ones need it. With `exactly`, as in renew.lua.
if has_places or exactly then
  local waiters = notified_waiters()
  if #waiters == 0 or exactly then redis.call('DEL', claim) end
  notify_waiters(waiters, lasts, time(), '')
end
return 1
