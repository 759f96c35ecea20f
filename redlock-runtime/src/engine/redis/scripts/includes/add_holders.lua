-- Puts the admitted callers inside. If the script fails in between, the lock counts nobody, and is free to all of us.
--- @with lock, clock, claim, holders, permits, floor
--- @include "fence"
--- @include "counted" (holders, permits)
--- @include "has_room" (holders, permits)
--- @include "extend_counted" (lock, holders)
local function add_holders()
  if #entering == 0 then return end
  local is_first = inside == #entering / 2
  if is_first then phase = string.format('%.0f', next_fence(clock, floor)) end
  local value = '%holders|' .. (extra > 0 and 1 or limit) .. '|' .. phase
  local px = extend_counted(entering.lasts, value ~= written and value, is_first and 0 or redis.call('PTTL', lock))
  -- Deletes what an earlier phase has left, if the lock was deleted.
  if is_first then redis.call('DEL', holders, claim) end
  -- One that is inside already keeps its lease: it may have entered without the queue, where its process could not notify, and left
  -- its place behind.
  local added = type(redis.pcall('ZADD', holders, 'NX', unpack(entering))) ~= 'table'
  -- Without its member, a caller is not inside. Without an expiry, the set would stay forever.
  local is_undone = is_first and not (added and type(redis.pcall('PEXPIRE', holders, px)) ~= 'table')
  if is_undone then
    redis.call('DEL', lock, holders)
    -- This or the next one runs into the same error again.
    redis.call('PEXPIRE', lock, px)
  end
  if not added then redis.call('ZADD', holders, 'NX', unpack(entering)) end
  if is_undone then
    -- The server allows now what it has just refused. The lock is deleted by now.
    redis.call('DEL', holders)
    error({err = 'TRYAGAIN the server has refused to count a caller'})
  end
  written, entering, entering_least, entering_extra = value, {}, 0, 0
end
