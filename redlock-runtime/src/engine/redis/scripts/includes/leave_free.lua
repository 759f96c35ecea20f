-- how: above '0' if other lock clients use the lock, too. They do not know its queue, and would never find it free
-- while it has waiters. So about one release in 128, by the microseconds of the server's time, leaves it free for a
-- moment, and notifies the first two waiters to ask again; if these are of one process, which may be stopped, also the
-- first waiter of another process. A release for followers counts for as many. A counter would not do: with one counter
-- for all locks, a lock that alternates with another might never be left free, and a counter for each lock would have
-- to be stored.
--- @with lock, queue, claim, how, token, leaves
--- @include "together"
--- @include "time"
--- @include "read"
--- @include "notify"
--- @include "is_there" (lock, token, leaves)
local function leave_free()
  if how == '0' or time() % 128 >= tonumber(how) then return false end
  local told, first, are_of_one = 0, nil, true
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, TOGETHER - 1)) do
    local next_token, _, next_inbox = read(member)
    local is_told = told < 2 or are_of_one and next_inbox ~= first
    if next_token and is_told and is_there(next_token, next_inbox) then
      if told == 0 then redis.call('DEL', lock, claim) end
      notify(next_inbox, 'free|' .. next_token .. '|0|0||' .. lock)
      told, first = told + 1, first or next_inbox
      are_of_one = next_inbox == first
    end
  end
  return told > 0
end
