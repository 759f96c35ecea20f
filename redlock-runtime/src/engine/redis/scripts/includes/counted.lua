-- The state of a counted lock, which several callers hold at a time.
-- Each caller has a limit, which says how many it allows inside at a time, itself included: 1 for an exclusive caller,
-- 0 for any number. A caller may enter if fewer are inside than its limit and each of their limits allow. A caller that
-- takes several permits counts for as many.
--
-- holders: a sorted set. Member: token|limit|inbox, without a tag; 10x3 in place of the limit for 3 of 10 permits.
--         Score: the end of its lease, in ms of the server's time, and half a ms more if its process lets it end. An
--         exclusive caller that does not know of holders leaves the key out, and calls again if the lock has some
-- The value of the lock is %holders|the least of their limits|their fencing token. All holders of a phase share one
-- fencing token. A phase lasts from the first caller that enters a free lock until the last one leaves. The key
-- outlives the last lease by the grace. While a holder has several permits, the value has the limit 1. Scripts that do
-- not know weights then admit nobody, and scripts that do know them read the members. The value and the members have
-- the limits of the callers, also if a central limit counts: see central.lua.
--- @with holders, permits
--- @include "time"
--- @include "limits_of"
--- @include "central" (permits)

-- The value of the lock; the limit in it, which is the least limit of a holder, or of one that has left, or 1 until the
-- members are read; the phase in it; how many are inside; and how many permits they have beyond one each.
local written, limit, phase, inside, extra = nil, nil, nil, 0, 0

local function read_limits()
  limit, extra = limits_of(redis.call('ZRANGE', holders, 0, -1))
end

local function now_ms()
  return string.sub(time(), 1, -4)
end

-- Returns how many permits a holder has.
local function weight_of(member)
  return tonumber(string.match(member, '|%d+x(%d+)|')) or 1
end

-- Returns the rank of the holder whose end makes room for this limit and weight, once the holders before it have left,
-- too.
local function makes_room(number, weight)
  if limit == 1 and number ~= 1 then read_limits() end
  local missing = inside + extra + weight - math.max(allowed(least(number, limit)), 1)
  -- The first holder that leaves makes room for one permit.
  if missing <= 1 then return 0 end
  -- The holder that leaves may have had the least limit. So the limits of those that stay count, beginning with the
  -- lease that ends last.
  local members = redis.call('ZRANGE', holders, 0, -1)
  local taken, most = weight, number
  for i = #members, 1, -1 do
    taken, most = taken + weight_of(members[i]), least(most, tonumber(string.match(members[i], '|(%d+)')) or 1)
    if most ~= 0 and taken > allowed(most) then return i - 1 end
  end
  return 0
end

-- Returns in how many ms there is room for this limit and weight, unless a holder renews or leaves.
local function left_for(number, weight)
  local at = makes_room(number, weight)
  local ends = redis.call('ZRANGE', holders, at, at, 'WITHSCORES')[2]
  return ends and math.max(math.ceil(ends - now_ms()), 0) or 0
end
