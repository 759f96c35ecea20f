-- The central limit: how many permits an operator has set for a lock. It counts in place of the number of each caller
-- with permits. An exclusive caller still allows nobody beside itself, and a reader any number.
-- permits: the key of the central limit, which has no expiry. If it does not exist, the numbers of the callers count
--- @with permits
local central = nil

-- Returns how many may be inside if the callers demand this number.
local function allowed(number)
  if number < 2 then return number end
  if central == nil then central = permits and tonumber(redis.call('GET', permits)) or false end
  return central or number
end
