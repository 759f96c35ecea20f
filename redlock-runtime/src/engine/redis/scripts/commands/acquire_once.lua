-- Takes a lock for a body that runs once, unless the body is done.
-- KEYS[1] to KEYS[6] as in acquire.lua, KEYS[7] the record: see once.lua
-- ARGV[1] to ARGV[7] as in acquire.lua; the kind is 'once'   ARGV[8] the fingerprint of the request, or '-'
-- ARGV[9] how long the record lasts in ms   ARGV[10] the runner   ARGV[11] 'error': a body that was interrupted does not run again,
-- or ''   ARGV[12] the SHA-1 of a result that cannot be decoded, and counts as none
-- Returns what acquire.lua returns, or {6, kept, the result} for a body that is done, {5, kept} if the record is of
-- another request, {7, kept, since when in ms, its owner} for a body that was interrupted. `kept` is 1 if the caller
-- has to release the lock or its place in the queue, and 0 if it has neither. While the body runs, the record lasts
-- longer than its lease: renew_once.lua prolongs it. Each call reads the record, because a caller that has waited, or
-- got the lock by a push, does not know what was stored meanwhile.
-- Idempotent by token, as acquire.lua.
local record = KEYS[7]
--- @include "grace"
--- @include "value_of"
--- @include "parse"
--- @include "once" (record)
--- @function "acquire"

local fingerprint, runner = ARGV[8], ARGV[10]
local function kept()
  if parse(value_of(KEYS[1])) == ARGV[1] then return 1 end
  if ARGV[3] == '0' or ARGV[3] == 'late' then return 0 end
  return redis.call('ZSCORE', KEYS[2], ARGV[1] .. '|' .. ARGV[2] .. '|' .. ARGV[4] .. '|once') and 1 or 0
end

local found = recorded()
if found == nil then return redis.error_reply(NO_RECORD) end
if found and found.fingerprint ~= fingerprint then return {5, kept()} end
local result, before = found and (found.result or found.result_before), ''
if result then
  if not ARGV[12] or redis.sha1hex(result) ~= ARGV[12] then return {6, kept(), result} end
  if found.result then
    before = string.format('%.0f', ms_of_server() + math.max(redis.call('PTTL', record), 0)) .. '|' .. found.value
    found = false
  else
    before = found.ends .. '|' .. found.before
  end
end
local taken = acquire(KEYS, ARGV)
-- The lock decides who is alive, not the record: the runner that started the body before no longer holds the lock.
if type(taken) == 'number' and not (found and found.runner == runner) then
  if found and ARGV[11] == 'error' then return {7, 1, found.since, found.owner} end
  set_record(fingerprint, 's', runner, ARGV[1], before, string.format('%.0f', ARGV[9] + ARGV[2] + GRACE))
end
return taken
