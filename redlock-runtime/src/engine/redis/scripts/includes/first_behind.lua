-- Returns the first waiter that is of another process than the first two.
--- @with queue
--- @include "together"
--- @include "read"
local function first_behind(their_inbox)
  local its, from, to = '|' .. their_inbox, 2, 5
  while from <= TOGETHER do
    local members = redis.call('ZRANGE', queue, from, to)
    for i = 1, #members do
      -- Most members are of that process. A pattern takes longer than the rest of the call.
      local member = members[i]
      local _, ends = string.find(member, its, 1, true)
      local behind = ends and string.byte(member, ends + 1)
      if not ends or behind and behind ~= 124 then
        local _, _, inbox = read(member)
        if inbox and inbox ~= their_inbox then return member end
      end
    end
    if #members <= to - from then return end
    -- Often the waiter is among the first few, and each member that is read costs a third of a command.
    from, to = to + 1, math.min(to * 4, TOGETHER)
  end
end
