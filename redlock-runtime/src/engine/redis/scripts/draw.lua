-- Draws a fencing token for a lock that this token holds, and took without one. Behind fence.lua and mark.lua.
-- ARGV[1] token   ARGV[6] as in fence.lua
-- Returns it, or 0 when this token does not hold the lock.
if parse(value_of(KEYS[1])) ~= ARGV[1] then return 0 end
return next_fence()
