-- What waiters are told. Behind time.lua, mark.lua and queue.lua.

-- Members that one call reads at most, in a few ms: its caller calls again at once. And members that are read together.
local MOST, TOGETHER = 2000, 250

-- Marks the lock, unless it is marked already, or a foreign client's.
local function set_mark(value, pttl)
  local holder, grace = parse(value)
  if not holder or grace > 0 then return end
  if pttl < 0 then return redis.call('SET', lock, value .. '!') end
  redis.call('SET', lock, value .. '!', 'PX', pttl + GRACE)
end

-- Returns the inbox of the waiter that it tells.
local function tell_one(member, what)
  local next_token, _, next_inbox = read(member)
  if next_token then redis.pcall('PUBLISH', next_inbox, 'next|' .. next_token .. what) end
  return next_inbox
end

-- Tells the first two waiters, because one may be dead, how long the lock lasts that is in front of them: then they ask again,
-- and name the claimant, the inbox of a waiter that was granted the lock. If both are of its process, the first waiter of
-- another process is told, too, because a stuck process does not ask. A process that hands a lock to itself is not stuck.
local function tell(members, lasts, at, claimant)
  local what = '|' .. lasts .. '|' .. at .. '|' .. claimant .. '|' .. lock
  local are_of_claimant = claimant ~= '' and claimant ~= ARGV[4]
  for _, member in ipairs(members) do
    local inbox = tell_one(member, what)
    are_of_claimant = are_of_claimant and inbox == claimant
  end
  if #members < 2 or not are_of_claimant then return end
  for _, member in ipairs(redis.call('ZRANGE', queue, 2, TOGETHER)) do
    local _, _, inbox = read(member)
    if inbox and inbox ~= claimant then return tell_one(member, what) end
  end
end

-- The waiters to tell.
local function first_two()
  return redis.call('ZRANGE', queue, 0, 1)
end

