-- Returns how many a waiter of this kind allows inside at a time, itself included: 1 for an exclusive one, 0 for any number; for how many
-- of them it counts; and both as its member among the holders has them: see counted.lua.
local function number_of(its_kind)
  local label, its_number, its_weight = string.match(its_kind, '^n((%d+)x?(%d*))$')
  return tonumber(its_number) or 1, tonumber(its_weight) or 1, label or '1'
end
