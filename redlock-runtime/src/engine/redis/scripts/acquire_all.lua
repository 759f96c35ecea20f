
-- Takes several locks, one after the other, until one cannot be had. Behind acquire.lua and what stands before that, as
-- a function with its own KEYS and ARGV.
-- KEYS: of each lock itself and its queue, in the order in which everybody takes them; then the clock of fencing tokens
-- ARGV[1] inbox   ARGV[2] the floor of fence.lua, or ''; then of each lock the arguments 1, 2, 3 and 5 of acquire.lua
-- Returns what acquire.lua returns for each lock that it came to: all are taken but for the last one, perhaps.
-- Idempotent by token, as that is.
local clock, inbox, floor = KEYS[#KEYS], ARGV[1], ARGV[2]
local answers = {}
for i = 1, (#KEYS - 1) / 2 do
  local token, ttl, how, at_most = unpack(ARGV, 4 * i - 1, 4 * i + 2)
  answers[i] = acquire({KEYS[2 * i - 1], KEYS[2 * i], clock}, {token, ttl, how, inbox, at_most, floor})
  if type(answers[i]) ~= 'number' then break end
end
return answers
