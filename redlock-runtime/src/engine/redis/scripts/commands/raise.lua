-- Draws a fencing token, and raises the clock of fencing tokens if it is below the floor. A client calls it when a
-- connection begins, and for a lock that it takes by plain commands.
-- KEYS[1] the clock   ARGV[1] the floor of fence.lua
-- Returns the fencing token that it draws.
-- A second call draws a higher one.
local clock, floor = KEYS[1], ARGV[1]
--- @include "fence"
return next_fence(clock, floor)
