-- Draws a fencing token, and raises the clock of fencing tokens that is below the floor: when a connection begins, and for a lock that
-- plain commands take.
-- KEYS[1] the clock   ARGV[1] the floor of fence.lua
-- Returns the fencing token that it draws.
-- A second call draws a higher one.
local clock, floor = KEYS[1], ARGV[1]
--- @include "fence"
return next_fence(clock, floor)
