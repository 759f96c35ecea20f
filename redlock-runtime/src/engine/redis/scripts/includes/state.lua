-- Reads the state of a lock. `holders`: those of a counted one.
-- Returns {the holder's token or the start of a foreign client's value, or false, what is left of its lease in ms,
-- number of waiters, the time of its grant in seconds, or ''}. For a counted lock, the lease is the one that ends last.
-- Two more parts follow: {}, and {how many are inside, then for each of the first 100 its member, and what is left of
-- its lease}. If one of them has several permits, the value has their least limit, and |how many they are|how many
-- permits they have at its end. If a central limit counts, the value has that limit, the same at its end, and |c.
--- @with lock, queue, holders, permits
--- @include "shown"
--- @include "value_of"
--- @include "parse"
--- @include "without_grace"
--- @include "limits_of"
--- @include "central" (permits)
local function state()
  local value = value_of(lock)
  local holder, grace, granted = parse(value)
  local left = without_grace(redis.call('PTTL', lock), grace)
  if grace > 0 and left == 0 then value, holder = false, nil end
  local found = {holder or value and string.sub(value, 1, SHOWN), left, redis.call('ZCARD', queue), string.sub(granted, 2)}
  if not value or not string.find(value, '^%%holders|%d+|%d+$') then return found end
  local now, over, inside = redis.call('TIME'), 0, {}
  local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
  repeat
    local page = redis.call('ZRANGE', holders, over, over + 99, 'WITHSCORES')
    for i = 1, #page, 2 do
      local lasts = math.ceil(page[i + 1]) - now_ms
      if lasts > 0 then
        inside[#inside + 1], inside[#inside + 2] = string.sub(page[i], 1, SHOWN), lasts
      else
        over = over + 1
      end
    end
  until #inside > 0 or #page < 200
  local last = redis.call('ZRANGE', holders, '-1', '-1', 'WITHSCORES')[2]
  -- The lock becomes free as soon as a client of ours asks.
  if #inside == 0 then return {false, left, found[3], '', {}, {0}} end
  local count = redis.call('ZCARD', holders) - over
  local its_least, its_phase, extra = string.match(value, '^%%holders|(%d+)|(%d+)$')
  if its_least == '1' then its_least, extra = limits_of(redis.call('ZRANGE', holders, over, -1)) end
  local counts = allowed(tonumber(its_least))
  if extra or central then
    local taken = count + (extra or 0)
    found[1] = '%holders|' .. counts .. '|' .. its_phase .. '|' .. count .. '|' .. taken .. (central and '|c' or '')
  end
  return {found[1], math.ceil(last) - now_ms, found[3], '', {}, {count, unpack(inside)}}
end
