-- What waiters are told. Behind time.lua, mark.lua and queue.lua.

-- Members that one call reads at most, in a few ms: its caller calls again at once. And members that are read together.
local MOST, TOGETHER = 2000, 250

-- The first waiter of another process than that of the first two.
local function first_behind(their_inbox)
  local its = '|' .. their_inbox
  for _, member in ipairs(redis.call('ZRANGE', queue, '2', TOGETHER)) do
    -- Most are of that process. A pattern takes longer than the rest of the call.
    local _, ends = string.find(member, its, 1, true)
    local behind = ends and string.byte(member, ends + 1)
    if not ends or behind and behind ~= 124 then
      local _, _, inbox = read(member)
      if inbox and inbox ~= their_inbox then return member end
    end
  end
end

-- Tells the first two waiters, because one may be dead, how long the lock lasts that is in front of them: then they ask again.
-- The claimant, the inbox of a waiter that was granted the lock, is told of the grant, and needs no hint. If both are of that
-- process, the first waiter of another process is told, because a stuck process does not ask. A process that hands a lock to
-- itself is not stuck.
local function tell(members, lasts, at, claimant)
  local others, its = members, '|' .. claimant .. '|'
  if claimant ~= '' then
    others = {}
    for _, member in ipairs(members) do
      if not string.find(member .. '|', its, 1, true) then others[#others + 1] = member end
    end
    if #members == 2 and #others == 0 and claimant ~= ARGV[4] then
      others[1] = first_behind(claimant)
    end
  end
  if #others == 0 then return end
  local what = '|' .. lasts .. '|' .. at .. '||' .. lock
  for _, member in ipairs(others) do
    local next_token, _, next_inbox = read(member)
    if next_token then redis.pcall('PUBLISH', next_inbox, 'next|' .. next_token .. what) end
  end
end

-- The waiters to tell.
local function first_two()
  return redis.call('ZRANGE', queue, '0', '1')
end

-- All that may have been told of the claim of the holder, whose process is the one of both if it is that of the first two.
local function all_told()
  local waiters = first_two()
  local _, _, first = read(waiters[1])
  local _, _, second = read(waiters[2])
  if first and first == second then waiters[3] = first_behind(first) end
  return waiters
end

