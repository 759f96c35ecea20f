-- Releases a lock that this token holds: the longest waiter gets it, or it is free. If this token does not hold it, the
-- token leaves the queue. Behind free.lua and grant.lua.
-- ARGV[3] '1': other lock clients use the lock, too. They do not know its queue, and would never find it free while it has
-- waiters. So about one release in 128, by the microseconds of the server's time, leaves it free for a moment and has the
-- head of the queue ask again. Not by a count: with one for all locks, a lock that alternates with another might never be
-- left free, and one for each lock would have to be stored.
-- Returns 1, or 0 when this token does not hold the lock, or 2 when it still does and the caller has to call again.
local function leave_free()
  if ARGV[3] ~= '1' or tonumber(time()) % 128 ~= 0 then return false end
  local next_token, _, next_inbox = read(redis.call('ZRANGE', queue, 0, 0)[1])
  if not next_token or not is_heard(next_token, next_inbox) then return false end
  redis.call('DEL', lock)
  redis.pcall('PUBLISH', next_inbox, 'free|' .. next_token .. '|0|0|' .. lock)
  return true
end

if holder ~= token then
  redis.call('ZREM', queue, me)
  return 0
end
if leave_free() then return 1 end
local next_holder = grant()
if next_holder == false then return 2 end
if not next_holder then redis.call('DEL', lock) end
return 1
