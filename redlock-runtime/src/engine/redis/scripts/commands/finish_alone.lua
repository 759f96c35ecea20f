-- Does what finish.lua does, for a server whose access rules forbid the commands of a queue.
-- KEYS, ARGV as in finish.lua
-- Returns 1, or 0 when the token does not hold the lock.
-- Idempotent by token, as finish.lua.
local lock, token, record = KEYS[1], ARGV[1], KEYS[7]
--- @include "value_of"
--- @include "store_result" (token, record)
local answer, is_held = store_result(value_of(lock), ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12])
return answer or is_held and redis.call('DEL', lock) or 0
