-- Makes the key of a counted lock last for so many ms, and a third more: so it changes seldom, and its watchers receive
-- few pushes. The expiry of the holders comes first: if access rules forbid it, the set must not end before the key.
--- @with lock, holders
--- @include "grace"
local function extend_counted(lasts, value, has)
  local px = lasts + GRACE
  if not value and has >= px then return end
  px = string.format('%.0f', math.max(px + math.floor(lasts / 3), has))
  if has > 0 then redis.call('PEXPIRE', holders, px) end
  if value then redis.call('SET', lock, value, 'PX', px) else redis.call('PEXPIRE', lock, px) end
  return px
end
