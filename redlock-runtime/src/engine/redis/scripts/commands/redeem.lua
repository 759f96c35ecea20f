-- Takes over a lock that its holder has left to the owner of a ticket.
-- KEYS[1] to KEYS[4] as in acquire.lua   ARGV[1], ARGV[2], ARGV[4], ARGV[6], ARGV[7] as in acquire.lua
-- ARGV[8] the token of the ticket, under which the lock was left
-- Returns a fencing token (0: unfenced), or -1 when another token holds the lock, or -2 when it is free. It does not
-- use the queue: to the waiters, the lock was held all the time. Idempotent by token, as acquire.lua.
local lock, queue, clock, claim = unpack(KEYS)
local token, ttl, _, inbox, _, floor, kind = unpack(ARGV)
--- @include "time"
--- @include "fence"
--- @include "value_of"
--- @include "parse"
--- @include "without_grace"
--- @include "granted_now"
--- @include "set_lock" (lock, claim)
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "notified_waiters" (queue)

local value = value_of(lock)
local holder, grace, granted = parse(value)
local left = value and without_grace(redis.call('PTTL', lock), grace)
-- In the grace of the lock, the ticket has expired.
if not value or grace > 0 and left == 0 then return -2 end
if holder ~= token and holder ~= ARGV[8] then return -1 end
local waiters = redis.call('EXISTS', queue) == 1 and notified_waiters() or {}
local fence, lasts = kind == 'unfenced' and 0 or next_fence(clock, floor), tonumber(ttl)
if holder == token then lasts = math.max(lasts, left) else granted = granted_now() end
set_lock(token .. granted, lasts, grace, waiters, inbox)
notify_waiters(waiters, lasts, time(), '')
return fence
