-- Takes several locks, one after the other, until one is refused.
-- KEYS: each lock, its queue, its claim, its holders and its central limit, in the order in which all callers take them; then
-- the clock of fencing tokens
-- ARGV[1] inbox   ARGV[2] the floor of fence.lua, or ''; then for each lock ARGV[1], ARGV[2], ARGV[3] and ARGV[5] of
-- acquire.lua
-- Returns for each lock what acquire.lua returns, up to the first that is refused.
-- Idempotent by token, as acquire.lua.
--- @function "acquire"
local clock, inbox, floor = KEYS[#KEYS], ARGV[1], ARGV[2]
local answers = {}
for i = 1, (#KEYS - 1) / 5 do
  local token, ttl, how, at_most = unpack(ARGV, 4 * i - 1, 4 * i + 2)
  local lock, queue, claim, holders, permits = unpack(KEYS, 5 * i - 4, 5 * i)
  answers[i] = acquire({lock, queue, clock, claim, holders, permits}, {token, ttl, how, inbox, at_most, floor})
  if type(answers[i]) ~= 'number' then break end
end
return answers
