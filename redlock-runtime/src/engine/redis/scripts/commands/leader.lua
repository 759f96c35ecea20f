-- Reads who leads.
-- KEYS[1] the lock   KEYS[2] the record of its leader
-- Returns {the holder's token or the start of a foreign client's value, or false, what is left of its lease in ms, 0, the
-- time of its grant in seconds, or ''}, and behind them, if the record is that of the holder, {the term, since when it leads
-- in ms since 1970, what it announces}.
-- It changes nothing.
--- @include "shown"
--- @include "value_of"
--- @include "parse"
--- @include "without_grace"
--- @include "record_at"
local value = value_of(KEYS[1])
local holder, grace, granted = parse(value)
local left = without_grace(redis.call('PTTL', KEYS[1]), grace)
if not value or grace > 0 and left == 0 then return {false} end
local found = {holder or string.sub(value, 1, SHOWN), left, 0, string.sub(granted, 2)}
local term, since, its_token, text = record_at(KEYS[2])
if term and its_token == holder then found[5] = {term, since, text} end
return found
