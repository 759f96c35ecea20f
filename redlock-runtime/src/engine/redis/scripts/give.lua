-- For acquire and release: gives a lock to a token. Behind fence.lua and tell.lua.

-- A granted waiter has to claim its lock by a renewal within this time, in ms: a stuck waiter costs the others no more.
local CLAIM = 1000

-- The lock is this token's for so many ms, and marked if these waiters wait for it, or if `grace` says so. Returns the mark.
local function put(next_token, lasts, grace, waiters)
  local mark = ''
  if #waiters > 0 or grace and grace > 0 then
    lasts, mark = lasts + GRACE, '!'
  end
  redis.call('SET', lock, next_token .. mark, 'PX', lasts)
  return mark
end

-- A waiter that has left the queue gets the lock, and is told. Returns for how many ms it has it.
local function give(next_token, next_ttl, next_inbox, kind, waiters)
  local fence = kind == '' and string.format('%.0f', next_fence()) or '0'
  local lasts = math.min(next_ttl, CLAIM)
  local mark, now = put(next_token, lasts, nil, waiters), time()
  tell(waiters, lasts, now, next_inbox)
  -- Behind the hints: a server writes first to the client that it has published to last.
  redis.pcall('PUBLISH', next_inbox,
    'granted|' .. next_token .. '|' .. fence .. '|' .. now .. '|' .. mark .. '|' .. lock)
  return lasts
end

