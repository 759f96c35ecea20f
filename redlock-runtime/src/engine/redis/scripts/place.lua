-- How the caller of acquire or enter asks, and its place in the queue. Behind join.lua and counted.lua.
-- ARGV[3] as in acquire.lua
local waits = ARGV[3] ~= '0' and ARGV[3] ~= 'late'
local joins = ARGV[3] == 'join' or ARGV[3] == 'join_again'
local has_waited = waits and not joins

-- The queue is gone (FLUSHALL, DEL, eviction), or only this waiter has left it, granted. The other waiters of its inbox may
-- have lost their places, too, and only one of them asks.
local function tell_place_lost()
  if not has_waited or ARGV[3] == 'rejoin' then return end
  redis.pcall('PUBLISH', ARGV[4], 'gone|' .. token .. '|0|0||' .. lock)
end

-- So many waiters are looked at when the queue is full: if they are in one row, a caller that is refused costs little.
local LOOKED_AT_WHEN_FULL = 16

-- Returns how many wait, and whether no more may. When as many wait as may, those that nobody hears leave: they are dead, and
-- would keep others out of a lock that may be free for as long as their queue is there.
local function count_waiters()
  local waiters, most = redis.call('ZCARD', queue), tonumber(ARGV[5])
  if waiters < most then return waiters, false end
  local from = time() % math.max(waiters - LOOKED_AT_WHEN_FULL + 1, 1)
  local dead = {}
  for _, member in ipairs(redis.call('ZRANGE', queue, from, from + LOOKED_AT_WHEN_FULL - 1)) do
    local its_token, _, its_inbox = read(member)
    if not its_token or not is_heard(its_token, its_inbox) then dead[#dead + 1] = member end
  end
  if #dead > 0 then
    waiters = waiters - redis.call('ZREM', queue, unpack(dead))
    have_left = true
  end
  return waiters, waiters >= most
end

-- Others have left in front of those that are in front now. Returns false when the caller has to call again.
local function tell_those_in_front(holder, left)
  if inside > 0 then return let_in() ~= false end
  -- A foreign client releases without a push: as in release.lua.
  tell(all_told(), holder and math.max(left, 0) or 0, time(), '')
  return true
end

local function join()
  if not redis.call('ZSCORE', queue, me) then
    tell_place_lost()
    add(redis.call('ZCARD', queue))
  else
    redis.call('PEXPIRE', queue, QUEUE_TTL)
    -- Raises an error when access rules have changed, so that this waiter would not hear of its lock. From Redis 7.0 on.
    if redis.acl_check_cmd and not redis.acl_check_cmd('PUBLISH', ARGV[4], '') then
      redis.call('PUBLISH', ARGV[4], '')
    end
  end
end

-- The first waiter keeps out those behind it that have room beside the holders, and its process may be stopped. So a caller that
-- has room sends it a hint, and it has to ask within a claim, or the waiters of its process leave the queue. The claim notes since
-- when, in ms of the server's time, and its place: no inbox contains `|`. A waiter that asks makes the queue last for QUEUE_TTL
-- again, in any version of these scripts. The queue of a first waiter that has not answered lasts for a claim less: a request of
-- another process leaves it so.
local hinted

local function find_hinted()
  local since, member = string.match(limit and redis.call('GET', claim) or '', '^(%d+)|(.+)$')
  local _, _, inbox = read(member)
  if not inbox then return end
  local waited = now_ms() - since
  local answers = without_tag(inbox) == without_tag(ARGV[4] or '')
    or waited < 0 or redis.call('PTTL', queue) > QUEUE_TTL - CLAIM / 2 - waited
  hinted = {member = member, inbox = inbox, waited = waited, answers = answers}
end

-- Behind `join`.
local function leave_unanswered()
  if hinted and not hinted.answers then
    redis.call('PEXPIRE', queue, math.max(QUEUE_TTL - CLAIM - hinted.waited, QUEUE_TTL / 2))
  end
end

-- For a caller that has room. Returns false when it has to call again.
local function pass_over()
  if not hinted or hinted.answers or hinted.waited < CLAIM or redis.call('ZRANGE', queue, 0, 0)[1] ~= hinted.member then
    return true
  end
  local inboxes = drop({[without_tag(hinted.inbox)] = true})
  if not inboxes then return false end
  redis.call('DEL', claim)
  hinted = nil
  for inbox in pairs(inboxes) do redis.pcall('PUBLISH', inbox, 'gone||0|0||' .. lock) end
  return true
end

-- For a caller that has room and did not get in. Returns when it asks again, in ms.
local function hint_first(left)
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  local first_token, _, inbox = read(first)
  if not inbox or without_tag(inbox) == without_tag(ARGV[4] or '') then return left end
  if not hinted or hinted.member ~= first or hinted.waited >= CLAIM then
    local noted = redis.pcall('SET', claim, now_ms() .. '|' .. first, 'PX', QUEUE_TTL)
    if type(noted) == 'table' and noted.err then return left end
    hinted = {waited = 0}
    redis.call('PEXPIRE', queue, QUEUE_TTL - CLAIM)
    redis.pcall('PUBLISH', inbox, 'next|' .. first_token .. '|0|' .. time() .. '||' .. lock)
  end
  return math.max(CLAIM - hinted.waited, 1)
end
