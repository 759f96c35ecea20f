-- Moves the expiry of a lock that this token holds. A request that arrives late does not shorten the lease, unless `exactly`.
-- ttl: in ms, above zero: PEXPIRE 0 would delete
-- Returns 1, and behind it for how many ms a marked lock lasts, and its grace; 0 when this token does not hold the lock.
--- @include "without_time"
local function extend(lock, token, ttl, exactly)
  local value = redis.pcall('GETRANGE', lock, '0', '512')
  if type(value) == 'table' then value = redis.call('GET', lock) end
  -- The short way, for a lock without waiters: its value has no mark.
  if without_time(value, token) == token then
    local lasts, left = ttl, redis.call('PTTL', lock)
    if not exactly and left > tonumber(lasts) then lasts = left end
    return redis.call('PEXPIRE', lock, lasts)
  end

  --- @include "parse"
  --- @include "without_grace"
  local holder, grace = parse(value)
  if holder ~= token then return 0 end
  local lasts, left = tonumber(ttl), without_grace(redis.call('PTTL', lock), grace)
  if not exactly then lasts = math.max(lasts, left) end
  redis.call('PEXPIRE', lock, lasts + grace)
  return 1, lasts, grace
end
