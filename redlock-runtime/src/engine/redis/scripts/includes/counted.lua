-- A counted lock, which several have at a time.
--
-- Each caller names how many it allows inside at a time, itself included: 1 for an exclusive one, 0 for any number. One may enter
-- when fewer are inside than it and each of them allows. One that takes several permits counts for as many.
--
-- holders: a sorted set. Member: token|how many it allows|inbox, without a tag; score: when its lease ends, in ms of the
--         server's time, and half a ms behind it if its process lets it end. One that counts for 3 of 10 has 10x3 in the second place
--         An exclusive caller that knows of none leaves them out, and calls again where there are some
-- The value of the lock is %holders|the least that one of them allows|their fencing token. They have the same one: it counts phases,
-- from the first that enters a free lock to the last that leaves. The key lasts for the grace longer than the last of them.
-- While one of them counts for several, the value says that one allows no other: scripts that do not know that leave it alone, and
-- those that do read the members.
--- @with holders
--- @include "time"
--- @include "limits_of"

-- What the lock says, and of it: the least that one of them allows, or one that has left, or 1 before the members are read; how many are
-- inside; and how many permits they have beyond one each.
local written, limit, phase, inside, extra = nil, nil, nil, 0, 0

local function read_limits()
  limit, extra = limits_of(redis.call('ZRANGE', holders, 0, -1))
end

local function now_ms()
  return string.sub(time(), 1, -4)
end

-- For how many permits one of them counts.
local function weight_of(member)
  return tonumber(string.match(member, '|%d+x(%d+)|')) or 1
end

-- The rank of the one whose end makes room for this number and weight, if those before it have left, too.
local function makes_room(number, weight)
  if limit == 1 and number ~= 1 then read_limits() end
  local missing = inside + extra + weight - math.max(least(number, limit), 1)
  -- The first that leaves makes room for one.
  if missing <= 1 then return 0 end
  -- Who leaves may have allowed the fewest: those that stay say how many may be inside, from the last that ends.
  local members = redis.call('ZRANGE', holders, 0, -1)
  local taken, most = weight, number
  for i = #members, 1, -1 do
    taken, most = taken + weight_of(members[i]), least(most, tonumber(string.match(members[i], '|(%d+)')) or 1)
    if most ~= 0 and taken > most then return i - 1 end
  end
  return 0
end

-- When there is room for this number and weight, unless those inside renew or leave. In ms from now.
local function left_for(number, weight)
  local at = makes_room(number, weight)
  local ends = redis.call('ZRANGE', holders, at, at, 'WITHSCORES')[2]
  return ends and math.max(math.ceil(ends - now_ms()), 0) or 0
end
