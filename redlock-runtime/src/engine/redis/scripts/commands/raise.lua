-- Raises the clock of fencing tokens, when a connection begins.
-- KEYS[3] the clock   ARGV[6] the floor of fence.lua
-- Returns the fencing token that it draws.
-- A second call draws a higher one.
local clock, floor = KEYS[3], ARGV[6]
--- @include "fence"
return next_fence(clock, floor)
