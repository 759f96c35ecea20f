-- Releases a lock whose body runs once, in the same step that stores its result: release.lua follows. Behind keep_result.lua,
-- leave_free.lua and counted.lua.

-- Those that wait for the result leave the queue and are told; the next one behind them gets the lock, and releases it in the same way.
if is_held and is_done then
  local gone = {}
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, TOGETHER - 1)) do
    local _, _, _, kind = read(member)
    if kind == 'once' then gone[#gone + 1] = member end
  end
  if #gone > 0 then redis.call('ZREM', queue, unpack(gone)) end
  for _, member in ipairs(gone) do
    local next_token, _, next_inbox = read(member)
    redis.pcall('PUBLISH', next_inbox, 'done|' .. next_token .. '|0|0||' .. lock)
  end
end
