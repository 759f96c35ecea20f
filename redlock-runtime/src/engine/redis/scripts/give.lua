-- For acquire and release: gives a lock to a token. Behind fence.lua, tell.lua and followers.lua.

-- A granted waiter has to claim its lock by a renewal within this time, in ms: a stuck waiter costs the others no more.
local CLAIM = 1000

-- Behind the token in the value of a lock that is granted now, to one that has waited for it.
local function granted_now()
  return '=' .. string.sub(time(), 1, -7)
end

-- The lock has this value for so many ms, and is marked if these waiters wait for it, or if `grace` says
-- so. Returns the mark.
-- The claim is noted while others wait: the lock vanishes soon after a lease that ends without a release.
local function put(next_value, lasts, grace, waiters, next_inbox)
  local mark = ''
  if #waiters > 0 or grace and grace > 0 then
    lasts, mark = lasts + GRACE, '!'
  end
  redis.call('SET', lock, next_value .. mark, 'PX', string.format('%d', lasts))
  if #waiters > 0 then redis.pcall('SET', claim, next_inbox, 'PX', QUEUE_TTL) end
  return mark
end

-- A waiter that has left the queue gets the lock, and is told. Returns for how many ms it has it.
local function give(next_token, next_ttl, next_inbox, kind, waiters)
  local fence = kind == '' and string.format('%.0f', next_fence()) or '0'
  local lasts = math.min(next_ttl, CLAIM)
  local mark, now = put(next_token .. granted_now(), lasts, nil, waiters, next_inbox), time()
  local rest = kind == 'unfenced' and '|' .. next_ttl .. '|' .. next_inbox .. '|unfenced'
  local followers = rest and followers_of(rest, waiters[1], waiters[2]) or ''
  tell(waiters, lasts, now, next_inbox)
  -- Behind the hints: a server writes first to the client that it has published to last.
  local told = redis.pcall('PUBLISH', next_inbox,
    'granted|' .. next_token .. '|' .. fence .. '|' .. now .. '|' .. mark .. followers .. '|' .. lock)
  if type(told) == 'table' then
    -- Access rules have changed: no waiter hears of its lock any more, so it is free. The caller hears of the same error.
    redis.call('DEL', lock)
    redis.call('PUBLISH', next_inbox, '')
  end
  return lasts
end

