-- Reads the limits and weights of the holders from their members: see counted.lua.

-- Returns the smaller limit. Zero allows any number, so it is larger than all others.
local function least(one, other)
  if one == 0 then return other elseif other == 0 then return one end
  return math.min(one, other)
end

-- Returns the least of their limits, and how many permits they have beyond one each.
local function limits_of(members)
  local its_least, beyond = 0, 0
  for i = 1, #members do
    local its_number, its_weight = string.match(members[i], '|(%d+)x?(%d*)|')
    its_least = least(its_least, tonumber(its_number) or 1)
    beyond = beyond + (tonumber(its_weight) or 1) - 1
  end
  return its_least, beyond
end
