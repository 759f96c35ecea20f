-- Releases a lock, if this token holds it, and leaves its queue alone: on one node of several, where there are none, and where
-- access rules forbid what a queue needs.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] and so on: the tokens that its process has passed the lock on to
-- Returns 1, or 0 when none of these tokens holds the lock.
-- Idempotent by token: a second call finds no lock of it.
-- The time of the grant: behind the token in the value of a lock, `=` and the server's time in seconds,
-- where its holder had to wait. The time in the token is when it asked. For people alone.

-- Returns the value of a lock without that, if it is that of this token.
local function without_time(value, token)
  -- Looks at one letter first: each text that is made costs as much as half a command.
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
