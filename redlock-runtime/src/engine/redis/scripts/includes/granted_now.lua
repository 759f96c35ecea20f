-- Returns what follows the token in the value of a lock that is granted now, to a caller that has waited for it.
--- @include "time"
local function granted_now()
  time()
  return '=' .. seconds
end
