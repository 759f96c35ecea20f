-- Draws a fencing token for a lock that this token holds, and took without one.
-- KEYS[1] the lock   KEYS[3] the clock of fencing tokens   ARGV[1] token   ARGV[6] the floor of fence.lua
-- Returns the fencing token, or 0 if this token does not hold the lock.
-- A second call draws a higher one.
local clock, floor = KEYS[3], ARGV[6]
--- @include "fence"
--- @include "value_of"
--- @include "parse"
if parse(value_of(KEYS[1])) ~= ARGV[1] then return 0 end
return next_fence(clock, floor)
