-- Releases a lock that this token holds, or a token to which its process has passed the lock on. The longest waiter
-- gets it, or it is free. If none of these tokens holds the lock, they leave the queue.
-- KEYS as in acquire.lua   ARGV[1], ARGV[2], ARGV[4], ARGV[6], ARGV[7] as in acquire.lua
-- ARGV[3] as in leave_free.lua
-- ARGV[8] and so on: the tokens that its process has passed the lock on to, if pass_on.lua may not have run since, or
-- if they may have places in the queue
-- Returns 1, or 0 if none of these tokens holds the lock, or 2 if the caller has to call again.
-- Idempotent by token: a second call finds neither a lock nor a place of this token.

-- The short way, for a lock without waiters: its value has no mark, and no time, because its holder has not waited
-- either. It has the same effect as `release` in includes/release.lua. GETRANGE reads only as much as shown.lua says. A
-- value of another type is not this token. Access rules may forbid GETRANGE; `call` raises any other error again.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then value = redis.call('GET', KEYS[1]) end

local lock, queue, clock, claim, holders, permits = unpack(KEYS)
local token, ttl, how, inbox, _, floor, kind = unpack(ARGV, 1, 7)
inbox, kind = inbox or '', kind or ''
--- @include "grace"
--- @include "claim"
--- @include "least"
--- @include "queue_ttl"
--- @include "time"
--- @include "without_time"
--- @include "first_behind" (queue)
--- @include "notify"
--- @include "must_notify"
--- @include "listeners"
--- @include "followers" (queue)

-- As text: the server takes a third of a command longer for a number, and so does the script to make a text of one.
local CLAIM_AND_GRACE = '1100'

-- The short way, for a marked lock: its first waiter gets it, if that waiter is alive. It has the same effect as
-- `release` below, with `grant_one` and `notify_waiters`, but is written for a server that is idle between two
-- releases, with cold caches. There, a pattern over a member takes longer than GET, and so does a number among the
-- arguments of a command. So this searches texts for single characters, and leaves numbers as text. And each function
-- of the long way takes longer to make than to call.

-- The holder had to wait, but nobody waits behind it.
value = without_time(value, token)
if value == token then return redis.call('DEL', lock) end

if value == token .. '!' and (not ARGV[8] or kind == 'unfenced') and (how == '0' or time() % 128 >= how + 0) then
  if ARGV[8] then
    local place, places = '|' .. ttl .. '|' .. inbox .. '|unfenced', {unpack(ARGV, 8)}
    for i = 1, #places do places[i] = places[i] .. place end
    redis.call('ZREM', queue, unpack(places))
  end
  local first, second, third = unpack(redis.call('ZRANGE', queue, '0', '2'))
  if not first then
    redis.call('DEL', lock, claim)
    return 1
  end
  -- Splits the member as MEMBER does.
  local bar = string.find(first, '|', 2, true)
  local next_ttl = bar and string.match(first, '^([1-9]%d*)|', bar + 1)
  if next_ttl then
    local next_token, begins = string.sub(first, 1, bar - 1), bar + #next_ttl + 2
    local ends = string.find(first, '|', begins, true)
    local next_inbox, is_fenced = string.sub(first, begins, (ends or 0) - 1), not ends
    -- 100 is the last letter of `unfenced`: this way is not for a waiter of a counted lock, because others may get the
    -- lock with it.
    if next_token ~= token and (is_fenced or string.byte(first, -1) == 100)
      and listeners(next_inbox, next_token, lock) > 0 then
      -- The long way draws another fencing token if this one must be raised, or if the server refuses it: a full server
      -- allows INCR only to a script that has freed memory.
      local fence = is_fenced and redis.pcall('INCR', clock)
      if not fence or type(fence) == 'number' and fence >= (tonumber(floor) or LEAST) then
        local lasts, mark, at = next_ttl + 0 < CLAIM + 0 and next_ttl or CLAIM, second and '!' or '', time()
        -- In two parts, as in fence.lua.
        local rest = fence and fence % 1000000000
        fence = fence and string.format('%d%09d', (fence - rest) / 1000000000, rest) or '0'
        if second then redis.call('ZREM', queue, first) else redis.call('DEL', queue, claim) end
        local px = second and (lasts == CLAIM and CLAIM_AND_GRACE or string.format('%d', lasts + GRACE)) or lasts
        redis.call('SET', lock, next_token .. '=' .. seconds .. mark, 'PX', px)
        if second then redis.pcall('SET', claim, next_inbox, 'PX', QUEUE_TTL) end
        local followers = is_fenced and '' or followers_of(string.sub(first, bar), second, third)
        -- Compares the inboxes as first_behind.lua does.
        local its, to_tell = '|' .. next_inbox, {}
        for _, member in ipairs({second, third}) do
          local _, to = string.find(member, its, 1, true)
          local behind = to and string.byte(member, to + 1)
          if not to or behind and behind ~= 124 then to_tell[#to_tell + 1] = member end
        end
        -- If both waiters to notify are of its process, and another process releases, the first waiter of a third
        -- process gets the push.
        if third and next_inbox ~= inbox and not to_tell[1] then to_tell[1] = first_behind(next_inbox) end
        for i = 1, #to_tell do
          -- The first three parts of MEMBER.
          local its_token, its_inbox = string.match(to_tell[i], '^([^|]+)|[1-9]%d*|([^|]*)')
          if its_token then
            notify(its_inbox,
              'next|' .. its_token .. '|' .. lasts .. '|' .. at .. '||' .. lock)
          end
        end
        local told = notify(next_inbox,
          'granted|' .. next_token .. '|' .. fence .. '|' .. at .. '|' .. mark .. followers .. '|' .. lock)
        if type(told) == 'table' then
          redis.call('DEL', lock)
          must_notify(next_inbox, '')
        end
        return 1
      end
    end
  end
end

local leaves = true
--- @include "me" (token, ttl, inbox, kind)
--- @include "mine" (token, inbox, kind)
--- @include "release" (lock, queue, clock, claim, holders, permits, token, ttl, how, inbox, floor, kind, leaves, me, mine, number)
return release(value, {unpack(ARGV, 8)})
