-- Returns the first waiter of another process than that of the first two.
--- @with queue
--- @include "together"
--- @include "read"
local function first_behind(their_inbox)
  local its = '|' .. their_inbox
  for _, member in ipairs(redis.call('ZRANGE', queue, '2', TOGETHER)) do
    -- Most are of that process. A pattern takes longer than the rest of the call.
    local _, ends = string.find(member, its, 1, true)
    local behind = ends and string.byte(member, ends + 1)
    if not ends or behind and behind ~= 124 then
      local _, _, inbox = read(member)
      if inbox and inbox ~= their_inbox then return member end
    end
  end
end
