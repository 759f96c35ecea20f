-- Splits the value of a lock. It is the token of its holder; then `=` and the time of the grant in seconds, if the
-- holder had to wait; and an exclamation mark once others have waited for it. So the holder's release looks for waiters
-- only if there are some.
--- @include "grace"
--- @include "shown"

local TOKEN = '^([%w_-]+@[%w._-]+:%d+[%w/_:.-]*)(=?%d*)(!?)$'

-- Returns the token in the value of a lock, the grace of its key, which is 0 without a mark, and the time of its grant
-- with the `=`, or ''. Returns nil, 0, '' for the value of a foreign client, which is never marked.
local function parse(value)
  if not value or string.byte(value, 23) ~= 64 or #value > SHOWN then return nil, 0, '' end
  local holder, granted, mark = string.match(value, TOKEN)
  return holder, mark == '!' and GRACE or 0, granted or ''
end
