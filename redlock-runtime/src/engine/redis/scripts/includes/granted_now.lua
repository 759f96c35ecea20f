-- Returns what stands behind the token in the value of a lock that is granted now, to one that has waited for it.
--- @include "time"
local function granted_now()
  return '=' .. string.sub(time(), 1, -7)
end
