-- Returns the limit of a waiter of this kind (1 for an exclusive waiter, 0 for any number), its weight, and both as
-- they are written in its member among the holders: see counted.lua.
local function number_of(its_kind)
  local label, its_number, its_weight = string.match(its_kind, '^n((%d+)x?(%d*))$')
  return tonumber(its_number) or 1, tonumber(its_weight) or 1, label or '1'
end
