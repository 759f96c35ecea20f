-- Those that are admitted, and whether there is room for more.
--- @with holders
--- @include "counted" (holders)

-- Those that are not written yet, and the least that one of them allows.
local entering, entering_least = {}, 0

local function has_room(number)
  if inside == 0 then return true end
  if limit ~= 0 and (number == 0 or limit < number) then
    -- Somebody allowed fewer than this one does. It may have left.
    limit = entering_least
    for _, member in ipairs(redis.call('ZRANGE', holders, 0, -1)) do
      limit = least(limit, tonumber(string.match(member, '|(%d+)|')) or 1)
    end
  end
  local most = least(number, limit)
  return most == 0 or inside < most
end

local function admit(member, number, lasts)
  limit = inside == 0 and number or least(limit, number)
  inside, entering_least = inside + 1, least(entering_least, number)
  entering[#entering + 1] = string.format('%.0f', now_ms() + lasts + 1)
  entering[#entering + 1] = member
  entering.lasts = math.max(entering.lasts or 0, lasts + 1)
end
