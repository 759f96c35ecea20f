
-- Takes a lock for its tick, if that tick is still to be run. Behind a function `acquire`, which is acquire.lua and the parts
-- before it, with the same KEYS and ARGV.
-- KEYS[6] the record of the last tick: its time in ms since 1970|the token of the one that has run it; nothing there: all ticks
--         before it are over, and this one is not
-- ARGV[8] the tick, in ms since 1970; empty: the server names it   ARGV[9] how long a tick lasts, in ms; 0: a nominal time
-- ARGV[10] so long ago the caller asked, in ms   ARGV[11] how long after its time a tick's record is kept, in ms
-- ARGV[12] how far a nominal time may be ahead of the server's time, in ms   ARGV[13] 'record': the tick is over with the grant
-- Returns the tick as text, and behind it what acquire.lua returns, or {8, the last tick as text, the token of the one that has
-- run it} when this tick is taken, or {9, 0} when it is so old that its record is gone, or {9, 1} when it is too far ahead.
-- Idempotent by token, as acquire.lua. A waiter names the tick that its first answer has told.
local seconds_and_micros = redis.call('TIME')
local now = seconds_and_micros[1] * 1000 + math.floor(seconds_and_micros[2] / 1000)
local tick, length, keeps = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[11])
-- The nearest one: callers of one tick come a little early and a little late.
if not tick then tick = math.floor((now - ARGV[10] + length / 2) / length) * length end
local name = string.format('%.0f', tick)
if tick + keeps <= now then return {name, {9, 0}} end
if length == 0 and tick - ARGV[12] > now then return {name, {9, 1}} end
local last, its_token = string.match(redis.call('GET', KEYS[6]) or '', '^(%d+)|(.*)$')
last = tonumber(last) or -1
-- The answer that told of its own record may be lost.
local is_open = its_token == '' or its_token == ARGV[1]
if last > tick or last == tick and not is_open then return {name, {8, string.format('%.0f', last), its_token}} end
local answer = acquire(KEYS, ARGV)
if ARGV[13] == 'record' and type(answer) == 'number' then
  redis.call('SET', KEYS[6], name .. '|' .. ARGV[1], 'PX', string.format('%.0f', tick + keeps - now))
end
return {name, answer}
