-- What a body leaves that runs once: its result, or that there is none. Behind finish_arguments.lua, mark.lua and once.lua.
-- Nothing is stored when the token does not hold the lock. Idempotent: a result that is stored is not stored again.
local value = value_of(KEYS[1])
local found = recorded()
if found == nil then return redis.error_reply(NO_RECORD) end
local is_held, is_done = parse(value) == ARGV[1], found and found.result
if is_held then
  if how == 'done' then
    -- First what a full server allows.
    redis.call('DEL', KEYS[6])
    set_record(fingerprint, 'd', runner, ARGV[1], result, record_lasts)
    is_done = true
  elseif how == 'undone' and found and not is_done and found.runner == runner then
    if found.before then
      -- It has failed in the place of a result that could not be decoded, and others may decode. The record is never absent: a script
      -- that fails here has lost nothing. First what a full server allows.
      redis.call('PEXPIRE', KEYS[6], string.format('%.0f', found.left))
      redis.call('SET', KEYS[6], found.before, 'PX', string.format('%.0f', found.left))
    else
      redis.call('DEL', KEYS[6])
    end
  end
elseif how == 'done' and is_done and found.runner == runner then
  return 1
end
