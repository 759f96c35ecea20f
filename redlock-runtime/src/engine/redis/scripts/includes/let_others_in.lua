-- Behind one that has left: those enter that have room now. If `let_in` tells nobody, the first two are told, if it had a place among
-- them or was inside, with this score. Returns false when the caller has to call again.
--- @with lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number
--- @include "first_two" (queue)
--- @include "tell_each" (lock, queue, holders, inbox)
--- @include "let_in" (lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number)
local function let_others_in(place, score)
  local who, _, are_told = let_in()
  if who and not are_told and (score or place and place < 2) then tell_each(first_two(), score) end
  if who == nil then
    -- As in release.lua.
    redis.call('DEL', lock)
    redis.pcall('DEL', holders)
    redis.pcall('DEL', claim)
  end
  return who ~= false
end
