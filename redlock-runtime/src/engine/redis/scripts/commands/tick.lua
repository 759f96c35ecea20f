-- Takes a lock for its tick, if nobody has run that tick. KEYS and ARGV begin as in acquire.lua.
-- KEYS[7] the record of the last tick: its time|the token of the caller that has run it|when that caller asked|when it
--         was granted the lock, or nothing if its run has ended. Times are in ms since 1970. Without a token, all ticks
--         before this one are over, and this one is open
-- ARGV[8] the tick, in ms since 1970; empty: the server names it   ARGV[9] how long a tick lasts, in ms; 0: a nominal time
-- ARGV[10] how long ago the caller asked, in ms   ARGV[11] how long after its time a tick's record is kept, in ms
-- ARGV[12] how far a nominal time may be ahead of the server's time, in ms   ARGV[13] 'record': the tick is over with the grant
-- Returns {the tick as text, what acquire.lua returns}. The second part is {8, the last tick as text, the token of the
-- caller that has run it} if this tick is taken, {9, 0} if it is so old that its record has expired, or {9, 1} if it is
-- too far ahead.
-- Idempotent by token, as acquire.lua. A waiter sends the tick of its first answer.
--- @include "value_of"
--- @include "parse"
--- @include "without_grace"
--- @function "acquire"
local MOST_EARLY, SETTLES = 150000, 1000
local seconds_and_micros = redis.call('TIME')
local now = seconds_and_micros[1] * 1000 + math.floor(seconds_and_micros[2] / 1000)
local tick, length, keeps, asked = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[11]), now - ARGV[10]
-- How early a caller may be for its tick. Calls that are less apart are for the same tick. 0 for a nominal time.
local early = math.min(math.floor(length / 4), MOST_EARLY)
local last, its_token, its_call, granted = string.match(redis.call('GET', KEYS[7]) or '', '^(%d+)|([^|]*)|?(%d*)|?(%d*)$')
last, its_call, granted = tonumber(last) or -1, tonumber(its_call), tonumber(granted)
-- The caller's own record: its answer was lost.
local is_own = its_token == ARGV[1]
local is_over = its_token and its_token ~= '' and not is_own
if not tick then
  tick = math.floor((asked + early) / length) * length
  -- For timers that fire at the boundary of two ticks: a whole tick has passed since the last call that ran.
  if is_over and last == tick and its_call and asked - its_call >= length - early then tick = tick + length end
  if is_own then tick = last end
end
local name = string.format('%.0f', tick)
if tick + keeps <= now then return {name, {9, 0}} end
if length == 0 and tick - ARGV[12] > now then return {name, {9, 1}} end
if last > tick then return {name, {8, string.format('%.0f', last), its_token}} end
-- Timers at the boundary: the name of this call is one tick later, but it is for the tick that was run.
local is_taken = is_over and (last == tick or its_call and math.abs(asked - its_call) < early)
if is_taken then
  -- A caller that has left before its body began may be about to give the tick back. So a caller that can wait does so
  -- for a moment.
  local settles = ARGV[3] ~= '0' and ARGV[3] ~= 'late' and granted and granted <= now and granted + SETTLES - now or 0
  local holder, grace = parse(settles > 0 and value_of(KEYS[1]))
  if holder == its_token and without_grace(redis.call('PTTL', KEYS[1]), grace) > 0 then
    local answer = acquire(KEYS, ARGV)
    if type(answer) == 'table' and answer[1] == 0 then answer[3] = math.min(answer[3], settles) end
    return {name, answer}
  end
  return {name, {8, string.format('%.0f', last), its_token}}
end
local answer = acquire(KEYS, ARGV)
if ARGV[13] == 'record' and type(answer) == 'number' then
  local record = string.format('%s|%s|%.0f|%.0f', name, ARGV[1], asked, now)
  redis.call('SET', KEYS[7], record, 'PX', string.format('%.0f', tick + keeps - now))
end
return {name, answer}
