-- Releases a lock if this token holds it, and does not touch its queue: for a node of a quorum, which has no queues,
-- and for a server whose access rules forbid the commands of a queue.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] and so on: the tokens that its process has passed the lock on to
-- Returns 1, or 0 when none of these tokens holds the lock.
-- Idempotent by token: a second call finds no lock of it.
-- The time of the grant follows the token in the value of a lock whose holder had to wait: `=` and the server's time in
-- seconds. (The time in the token is when the holder asked.) Only people read it.

-- Returns the value of a lock without the time of the grant, if it is this token's.
local function without_time(value, token)
  -- Compares one letter first, because each new text costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
local holder = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then holder = redis.call('GET', KEYS[1]) end
for _, token in ipairs(ARGV) do
  local value = without_time(holder, token)
  if value == token or value == token .. '!' then return redis.call('DEL', KEYS[1]) end
end
return 0
