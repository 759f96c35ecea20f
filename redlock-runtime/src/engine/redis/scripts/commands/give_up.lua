-- Releases a lock if this token holds it, and does not touch its queue: for a node of a quorum, which has no queues,
-- and for a server whose access rules forbid the commands of a queue.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] and so on: the tokens that its process has passed the lock on to
-- Returns 1, or 0 when none of these tokens holds the lock.
-- Idempotent by token: a second call finds no lock of it.
--- @include "without_time"
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then holder = redis.call('GET', KEYS[1]) end
for _, token in ipairs(ARGV) do
  local value = without_time(holder, token)
  if value == token or value == token .. '!' then return redis.call('DEL', KEYS[1]) end
end
return 0
