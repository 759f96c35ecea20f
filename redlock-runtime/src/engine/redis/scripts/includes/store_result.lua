-- Stores what a body that runs once leaves: its result, or that it has none.
-- Nothing is stored when the token does not hold the lock. Idempotent: a result that is stored is not stored again.
-- how: 'done': `result` is stored; 'undone': the body has not run, or has failed, and may run again; 'interrupted': it has begun
-- value: the value of the lock   fingerprint: the fingerprint of the request, or '-'   lasts: how long the record lasts
-- in ms
-- Returns what the script returns, if the lock is not to be released; or nil, whether the token holds it, and whether the body is done.
--- @with token, record
--- @include "parse"
--- @include "once" (record)
local function store_result(value, fingerprint, lasts, runner, how, result)
  local found = recorded()
  if found == nil then return redis.error_reply(NO_RECORD) end
  local is_held, is_done = parse(value) == token, found and found.result
  if is_held then
    if how == 'done' then
      -- First what a full server allows. If the next command fails, the body counts as interrupted for as long.
      redis.call('PEXPIRE', record, lasts)
      set_record(fingerprint, 'd', runner, token, result, lasts)
      is_done = true
    elseif how == 'undone' and found and not is_done and found.runner == runner then
      if found.before then
        -- It has failed in the place of a result that could not be decoded, and others may decode. The record is never absent: a script
        -- that fails here has lost nothing. First what a full server allows.
        redis.call('PEXPIRE', record, string.format('%.0f', found.left))
        redis.call('SET', record, found.before, 'PX', string.format('%.0f', found.left))
      else
        redis.call('DEL', record)
      end
    end
  elseif how == 'done' and is_done and found.runner == runner then
    return 1
  end
  return nil, is_held, is_done
end
