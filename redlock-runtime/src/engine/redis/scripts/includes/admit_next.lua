-- Admits the waiters that have room now, after a caller has left. If `admit_waiters` notifies nobody, this notifies the
-- first two waiters, provided that the one that left was one of them, or was inside. `score`: the end of its lease, if
-- it was inside. Returns false if the caller has to call again.
--- @with lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number
--- @include "first_two" (queue)
--- @include "notify_each" (lock, queue, holders, permits, inbox)
--- @include "admit_waiters" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
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
