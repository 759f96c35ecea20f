-- Does what end_tick.lua does, for a server whose access rules forbid the commands of a queue. It releases as
-- give_up.lua does.
-- KEYS[7] the record of the last tick, as in tick.lua
-- ARGV[8] what becomes of the tick   ARGV[9] the tick   ARGV[10] how long its record is kept   ARGV[11] how long ago it was asked for:
-- as in includes/end_tick.lua
-- Idempotent by token: a second call finds no lock of it.
--- @include "end_tick"
--- @function "give_up"
local function release_it() return give_up(KEYS, {ARGV[1]}) end
return end_tick(release_it, KEYS[1], ARGV[1], KEYS[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11])
