-- Releases a lock that this token holds, or one that it was passed on to: the longest waiter gets it, or it is free. If none of
-- them holds it, they leave the queue. Behind free.lua, leave_free.lua and counted.lua.
-- ARGV[3] as in leave_free.lua
-- ARGV[8] and so on: the tokens of those that its process has passed the lock on to, as far as pass_on.lua may not have told the
-- server, or they may have places
-- Returns 1, or 0 when none of these tokens holds the lock, or 2 when the caller has to call again.
local holder, grace = parse(type(value) == 'string' and value or '')
local is_held, followers, place = holder == token, {}, ARGV[8] and '|' .. ARGV[2] .. '|' .. ARGV[4] .. '|unfenced'
for i = 8, #ARGV do
  -- The lock may have been granted to a follower whose place was left: not by this process.
  is_held = is_held or holder == ARGV[i] and (i == #ARGV or not unfenced)
  followers[i - 7] = ARGV[i] .. place
end

-- If one that leaves was one of the first two, which are told when to ask, the next ones are told: else, if the other one dies,
-- no waiter would ask. A foreign client releases without a push, so the new head asks now, and watches the lock from then on.
local function leave()
  local place = redis.call('ZRANK', queue, me) or 2
  for _, member in ipairs(followers) do place = math.min(place, redis.call('ZRANK', queue, member) or 2) end
  if place > 1 then return redis.call('ZREM', queue, me, unpack(followers)) end
  -- Without a mark, it was taken past its queue: the lease before it has ended without a release.
  if holder and grace == 0 then drop_stuck() end
  local leaves, waiters = {[me] = true}, {}
  for _, member in ipairs(followers) do leaves[member] = true end
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, #followers + 2)) do
    if #waiters < 2 and not leaves[member] then waiters[#waiters + 1] = member end
  end
  if #waiters == 0 then return redis.call('DEL', queue, claim) end
  redis.call('ZREM', queue, me, unpack(followers))
  local left = 0
  if holder then
    local pttl = redis.call('PTTL', lock)
    set_mark(value, pttl, holder, grace)
    left = math.max(without_grace(pttl, grace), 0)
  end
  tell(waiters, left, time(), '')
end

if not is_held then
  if not look(type(value) == 'string' and value) then return 2 end
  if limit then
    local place, score = redis.call('ZRANK', queue, me), nil
    redis.call('ZREM', queue, me, unpack(followers))
    -- A process that does not know any more what it was granted does not know how many it has allowed.
    for _, member in ipairs(place and {} or redis.call('ZRANGE', holders, 0, MOST - 1)) do
      if string.sub(member, 1, #token + 1) == token .. '|' then
        score = redis.call('ZSCORE', holders, member)
        inside = inside - redis.call('ZREM', holders, member)
      end
    end
    return not let_others_in(place, score) and 2 or score and 1 or 0
  end
  leave()
  -- It was deleted while callers wait. The first of them may be dead, and the others ask seldom.
  local is_gone = not holder and redis.call('EXISTS', lock) == 0
  if is_gone and (not drop_stuck() or grant() == false) then return 2 end
  return 0
end
redis.call('ZREM', queue, me, unpack(followers))
if leave_free() then return 1 end
local next_holder = grant()
if next_holder == false then return 2 end
-- The lock first, and alone: while a slot of a Cluster moves, a command that names a key that does not exist is refused.
if not next_holder then
  redis.call('DEL', lock)
  redis.pcall('DEL', claim)
end
return 1
