-- Releases a lock that this token holds, or one that it was passed on to: the longest waiter gets it, or it is free. If none of
-- them holds it, they leave the queue. Behind free.lua and grant.lua.
-- ARGV[3] above '0': other lock clients use the lock, too. They do not know its queue, and would never find it free while it has
-- waiters. So about one release in 128, by the microseconds of the server's time, leaves it free for a moment and has the
-- first two of the queue ask again; if these are of one process, which may be stopped, the first of another one, too. A release
-- for followers counts for so many. Not by a count: with one for all locks, a lock that alternates with another might never be
-- left free, and one for each lock would have to be stored.
-- ARGV[8] and so on: the tokens of those that its process has passed the lock on to, as far as pass_on.lua may not have told the
-- server, or they may have places
-- Returns 1, or 0 when none of these tokens holds the lock, or 2 when the caller has to call again.
local holder, grace = parse(type(value) == 'string' and value or '')
local is_held, followers = holder == token, {}
for i = 8, #ARGV do
  -- The lock may have been granted to a follower whose place was left: not by this process.
  is_held = is_held or holder == ARGV[i] and (i == #ARGV or not unfenced)
  followers[i - 7] = ARGV[i] .. '|' .. ARGV[2] .. '|' .. ARGV[4] .. '|unfenced'
end

local function leave_free()
  if ARGV[3] == '0' or time() % 128 >= tonumber(ARGV[3]) then return false end
  local told, first, are_of_one = 0, nil, true
  for _, member in ipairs(redis.call('ZRANGE', queue, 0, TOGETHER - 1)) do
    local next_token, _, next_inbox = read(member)
    local is_told = told < 2 or are_of_one and next_inbox ~= first
    if next_token and is_told and is_heard(next_token, next_inbox) then
      if told == 0 then redis.call('DEL', lock, claim) end
      redis.pcall('PUBLISH', next_inbox, 'free|' .. next_token .. '|0|0||' .. lock)
      told, first = told + 1, first or next_inbox
      are_of_one = next_inbox == first
    end
  end
  return told > 0
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
    set_mark(value, pttl)
    left = math.max(without_grace(pttl, grace), 0)
  end
  tell(waiters, left, time(), '')
end

if not is_held then
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
if not next_holder then redis.call('DEL', lock, claim) end
return 1
