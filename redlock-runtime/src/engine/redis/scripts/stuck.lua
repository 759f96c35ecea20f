-- A lease that ends without a release: the process that had it is stuck. Behind queue.lua and tell.lua.

-- So many members one call looks at.
local LOOKED_AT = 10000

-- The inbox of a process in a Cluster ends with the tag of a slot, which changes when that slot moves.
local function without_tag(inbox)
  return string.byte(inbox, -1) == 125 and string.gsub(inbox, '{%d+}$', '') or inbox
end

-- Waiters have left the queue, and those behind them may have been told nothing.
local have_left = false

-- All waiters of these processes leave the queue: `stuck` has their inboxes as its keys, without tags. Returns the inboxes of those
-- that have left as its keys, with tags; or false when there may be more of them.
local function drop(stuck)
  local members, gone, inboxes = redis.call('ZRANGE', queue, 0, LOOKED_AT - 1), {}, {}
  for _, member in ipairs(members) do
    local _, _, inbox = read(member)
    if inbox and stuck[without_tag(inbox)] then
      gone[#gone + 1] = member
      inboxes[inbox] = true
    end
  end
  for i = 1, #gone, TOGETHER do
    redis.call('ZREM', queue, unpack(gone, i, math.min(i + TOGETHER - 1, #gone)))
  end
  have_left = have_left or #gone > 0
  return (#gone <= LOOKED_AT / 2 or #members < LOOKED_AT) and inboxes
end

-- The process that got the lock last has let its lease end: it is stuck, and each of its waiters would get a claim. So all
-- leave the queue. A process that was only slow is told that they have lost their places. Whoever asks is not stuck.
-- Returns false when there may be more of them: then the caller has to call again.
local function drop_stuck()
  local stuck = redis.call('GET', claim)
  -- A waiter that was asked, as place.lua says, has no lease.
  if not stuck or string.find(stuck, '|', 1, true) then return true end
  if stuck ~= ARGV[4] then
    if not drop({[without_tag(stuck)] = true}) then return false end
    redis.pcall('PUBLISH', stuck, 'gone||0|0||' .. lock)
  end
  redis.call('DEL', claim)
  return true
end

