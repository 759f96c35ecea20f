-- A counted lock, which several have at a time.
--
-- Each caller names how many it allows inside at a time, itself included: 1 for an exclusive one, 0 for any number. One may enter
-- when fewer are inside than it and each of them allows.
--
-- holders: a sorted set. Member: token|how many it allows|inbox, without a tag; score: when its lease ends, in ms of the
--         server's time, and half a ms behind it if its process lets it end
--         An exclusive caller that knows of none leaves them out, and calls again where there are some
-- The value of the lock is %holders|the least that one of them allows|their fencing token. They have the same one: it counts phases,
-- from the first that enters a free lock to the last that leaves. The key lasts for the grace longer than the last of them.
--- @with holders
--- @include "time"

-- Zero is more than any other number.
local function least(one, other)
  if one == 0 then return other elseif other == 0 then return one end
  return math.min(one, other)
end

-- What the lock says, and of it: the least that one of them allows, or one that has left; and how many are inside.
local written, limit, phase, inside = nil, nil, nil, 0

local function now_ms()
  return string.sub(time(), 1, -4)
end

-- When there is room for this number, unless those inside renew or leave. In ms from now.
local function left_for(number)
  local at = math.max(inside - math.max(least(number, limit), 1), 0)
  local ends = redis.call('ZRANGE', holders, at, at, 'WITHSCORES')[2]
  return ends and math.max(math.ceil(ends - now_ms()), 0) or 0
end
