-- Reads the state of a lock.
-- KEYS[1] the lock   KEYS[2] its queue   KEYS[3] its holders   KEYS[4] its central limit
-- Returns what state.lua returns, with the first 100 members of the queue if there are any.
-- It changes nothing.
local lock, queue, holders, permits = unpack(KEYS)
-- No token is longer. The value of a foreign client may be of any length, and the server takes 10 ms for each megabyte
-- that a script reads. So a script reads one byte more, which shows that the value is longer, and returns this many.
local SHOWN = 512
-- Reads the state of a lock. `holders`: those of a counted one.
-- Returns {the holder's token or the start of a foreign client's value, or false, what is left of its lease in ms,
-- number of waiters, the time of its grant in seconds, or ''}. For a counted lock, the lease is the one that ends last.
-- Two more parts follow: {}, and {how many are inside, then for each of the first 100 its member, and what is left of
-- its lease}. If one of them has several permits, the value has their least limit, and |how many they are|how many
-- permits they have at its end. If a central limit counts, the value has that limit, the same at its end, and |c.
--- @with lock, queue, holders, permits
-- Returns the value of a lock, or its first bytes as in shown.lua, or false if the lock does not exist. Access rules
-- may forbid GETRANGE; any error of GET is raised.
local function value_of(key)
  local value = redis.pcall('GETRANGE', key, '0', '512')
  if type(value) == 'table' then return redis.call('GET', key) end
  return (value ~= '' or redis.call('EXISTS', key) == 1) and value
end
-- Splits the value of a lock. It is the token of its holder; then `=` and the time of the grant in seconds, if the
-- holder had to wait; and an exclamation mark once others have waited for it. So the holder's release looks for waiters
-- only if there are some.
-- The key of a marked lock, and of a counted lock, outlives its lease by this time, in ms: until the head of the queue
-- has asked, no other client finds it free.
local GRACE = 100

local TOKEN = '^([%w_-]+@[%w._-]+:%d+[%w/_:.-]*)(=?%d*)(!?)$'

-- Returns the token in the value of a lock, the grace of its key, which is 0 without a mark, and the time of its grant
-- with the `=`, or ''. Returns nil, 0, '' for the value of a foreign client, which is never marked.
local function parse(value)
  if not value or string.byte(value, 23) ~= 64 or #value > SHOWN then return nil, 0, '' end
  local holder, granted, mark = string.match(value, TOKEN)
  return holder, mark == '!' and GRACE or 0, granted or ''
end
-- Returns the rest of the lease for a PTTL in ms. If it is negative, the key does not expire, or does not exist.
local function without_grace(pttl, grace)
  return pttl < 0 and pttl or math.max(pttl - grace, 0)
end
-- Reads the limits and weights of the holders from their members: see counted.lua.

-- Returns the smaller limit. Zero allows any number, so it is larger than all others.
local function least(one, other)
  if one == 0 then return other elseif other == 0 then return one end
  return math.min(one, other)
end

-- Returns the least of their limits, and how many permits they have beyond one each.
local function limits_of(members)
  local its_least, beyond = 0, 0
  for i = 1, #members do
    local its_number, its_weight = string.match(members[i], '|(%d+)x?(%d*)|')
    its_least = least(its_least, tonumber(its_number) or 1)
    beyond = beyond + (tonumber(its_weight) or 1) - 1
  end
  return its_least, beyond
end
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
local found = state()
-- Without waiters the queue need not be readable.
if found[1] and found[3] > 0 then
  found[5] = redis.call('ZRANGE', queue, 0, 99)
  for i, member in ipairs(found[5]) do found[5][i] = string.sub(member, 1, SHOWN) end
end
return found
