-- Returns how many a waiter of this kind allows inside at a time, itself included: 1 for an exclusive one, 0 for any number.
local function number_of(its_kind)
  return tonumber(string.match(its_kind, '^n(%d+)$')) or 1
end
