-- Admits callers to a counted lock, and says whether there is room for more.
--- @with holders, permits
--- @include "limits_of"
--- @include "central" (permits)
--- @include "counted" (holders, permits)

-- The admitted callers that are not written yet, the least of their limits, and the permits that they have beyond one
-- each.
local entering, entering_least, entering_extra = {}, 0, 0

local function has_room(number, weight)
  if inside == 0 then return true end
  if limit ~= 0 and (number == 0 or limit < number) and inside > #entering / 2 then
    -- A holder had a smaller limit than this caller, or several permits. It may have left. If nobody is written yet,
    -- the members are those of a lock that was deleted.
    read_limits()
    limit, extra = least(limit, entering_least), extra + entering_extra
  end
  local most = allowed(least(number, limit))
  return most == 0 or inside + extra + weight <= most
end

local function admit(member, number, weight, lasts)
  if inside == 0 then limit, extra = 0, 0 end
  limit, extra, entering_extra = least(limit, number), extra + weight - 1, entering_extra + weight - 1
  inside, entering_least = inside + 1, least(entering_least, number)
  entering[#entering + 1] = string.format('%.0f', now_ms() + lasts + 1)
  entering[#entering + 1] = member
  entering.lasts = math.max(entering.lasts or 0, lasts + 1)
end
