-- Gives up a lock that is this token's: to the longest waiter, or to nobody; never touches anybody else's.
-- Also gives up this token's place in the queue. Behind free.lua and grant.lua.
-- ARGV[3] '1': clients of another kind use the lock too. They know nothing of its queue, and would never find it
-- free as long as somebody waits: so about one release in 128, by the microseconds of the server's time, leaves it free
-- for a moment and has the head of the queue ask again. A count would have to be kept for each lock: by one for all, a
-- lock that takes turns with another one might never be left free.
-- Returns 1, or 0 when the lock is not this token's, or 2 when it still is and the same call again has to go on.
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
