-- Releases a lock as release.lua does, with the same KEYS, ARGV[1] to ARGV[7] and answer, and updates the record of its
-- tick.
-- KEYS[7] the record of the last tick, as in tick.lua
-- ARGV[8] what becomes of the tick   ARGV[9] the tick   ARGV[10] how long its record is kept   ARGV[11] how long ago it was asked for:
-- as in includes/end_tick.lua
-- Idempotent by token: a second call finds no lock of it.
--- @include "end_tick"
--- @function "release"
-- Only these arguments: release.lua would take ARGV[8] and so on for tokens.
local function release_it() return release(KEYS, {unpack(ARGV, 1, 7)}) end
return end_tick(release_it, KEYS[1], ARGV[1], KEYS[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11])
