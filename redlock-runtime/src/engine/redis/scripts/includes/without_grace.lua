-- Returns the rest of the lease for a PTTL in ms. If it is negative, the key does not expire, or does not exist.
local function without_grace(pttl, grace)
  return pttl < 0 and pttl or math.max(pttl - grace, 0)
end
