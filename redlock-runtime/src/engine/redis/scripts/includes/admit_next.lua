-- Behind one that has left: those enter that have room now. If `admit_waiters` tells nobody, the first two are told, if it had a place among
-- them or was inside, with this score. Returns false when the caller has to call again.
--- @with lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number
--- @include "first_two" (queue)
--- @include "notify_each" (lock, queue, holders, inbox)
--- @include "admit_waiters" (lock, queue, clock, claim, holders, floor, inbox, token, leaves, mine, number)
local function admit_next(place, score)
  local who, _, are_told = admit_waiters()
  if who and not are_told and (score or place and place < 2) then notify_each(first_two(), score) end
  if who == nil then
    -- As in release.lua.
    redis.call('DEL', lock)
    redis.pcall('DEL', holders)
    redis.pcall('DEL', claim)
  end
  return who ~= false
end
