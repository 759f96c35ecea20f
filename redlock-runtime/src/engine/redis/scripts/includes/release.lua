-- Releases a lock that this token holds, or a token to which its process has passed the lock on. The longest waiter
-- gets it, or it is free. If none of these tokens holds the lock, they leave the queue.
-- passed_on: the tokens that its process has passed the lock on to
--- @with lock, queue, clock, claim, holders, permits, token, ttl, how, inbox, floor, kind, leaves, me, mine, number
--- @include "time"
--- @include "parse"
--- @include "without_grace"
--- @include "set_mark" (lock)
--- @include "notify_waiters" (lock, queue, inbox)
--- @include "evict_stalled" (lock, queue, claim, inbox)
local function release(value, passed_on)
  if type(value) ~= 'string' then value = false end
  local holder, grace = parse(value)
  local unfenced, is_held, followers = kind == 'unfenced', holder == token, {}
  for i, its_token in ipairs(passed_on) do
    -- The server may have granted the lock to a follower whose place was left in the queue.
    is_held = is_held or holder == its_token and (i == #passed_on or not unfenced)
    followers[i] = its_token .. '|' .. ttl .. '|' .. inbox .. '|unfenced'
  end

  -- The first two waiters receive a push with the time at which to ask. If one of them leaves, this notifies the next
  -- ones: otherwise, if the other one dies, no waiter would ask. A foreign client releases without a push, so the new
  -- head asks now, and watches the lock from then on.
  local function leave_queue()
    local place = redis.call('ZRANK', queue, me) or 2
    for _, member in ipairs(followers) do place = math.min(place, redis.call('ZRANK', queue, member) or 2) end
    if place > 1 then return redis.call('ZREM', queue, me, unpack(followers)) end
    -- Without a mark, the lock was taken past its queue: the lease before it has ended without a release.
    if holder and grace == 0 then evict_stalled() end
    local gone, waiters = {[me] = true}, {}
    for _, member in ipairs(followers) do gone[member] = true end
    for _, member in ipairs(redis.call('ZRANGE', queue, 0, #followers + 2)) do
      if #waiters < 2 and not gone[member] then waiters[#waiters + 1] = member end
    end
    if #waiters == 0 then return redis.call('DEL', queue, claim) end
    redis.call('ZREM', queue, me, unpack(followers))
    local left = 0
    if holder then
      local pttl = redis.call('PTTL', lock)
      set_mark(value, pttl, holder, grace)
      left = math.max(without_grace(pttl, grace), 0)
    end
    notify_waiters(waiters, left, time(), '')
  end

  local is_counted = value and string.find(value, '^%%holders|%d+|%d+$')
  if not is_held and not is_counted then
    leave_queue()
    if holder or redis.call('EXISTS', lock) == 1 then return 0 end
  end

  --- @include "most"
  --- @include "counted" (holders, permits)
  --- @include "read_holders" (lock, queue, holders, permits, inbox)
  --- @include "grant_next" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
  --- @include "admit_next" (lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number)
  --- @include "leave_free" (lock, queue, claim, how, token, leaves)
  if not is_held and is_counted then
    if not read_holders(value) then return 2 end
    local place, score = redis.call('ZRANK', queue, me), nil
    redis.call('ZREM', queue, me, unpack(followers))
    -- A process that has forgotten its grant does not know its limit.
    for _, member in ipairs(place and {} or redis.call('ZRANGE', holders, 0, MOST - 1)) do
      if string.sub(member, 1, #token + 1) == token .. '|' then
        score = redis.call('ZSCORE', holders, member)
        inside = inside - redis.call('ZREM', holders, member)
      end
    end
    return not admit_next(place, score) and 2 or score and 1 or 0
  end
  if not is_held then
    -- The lock was deleted while callers wait. The first of them may be dead, and the others ask seldom.
    if not evict_stalled() or grant_next() == false then return 2 end
    return 0
  end
  redis.call('ZREM', queue, me, unpack(followers))
  if leave_free() then return 1 end
  local next_holder = grant_next()
  if next_holder == false then return 2 end
  -- This deletes the lock first, and alone: while a slot of a Cluster moves, the server refuses a command that names a
  -- key that does not exist.
  if not next_holder then
    redis.call('DEL', lock)
    redis.pcall('DEL', claim)
  end
  return 1
end
