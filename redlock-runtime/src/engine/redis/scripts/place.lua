-- How the caller of acquire or enter asks, and its place in the queue. Behind join.lua.
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

