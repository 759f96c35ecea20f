-- Releases a lock that this token holds, or one that it was passed on to: the longest waiter gets it, or it is free. If none of
-- them holds it, they leave the queue.
-- KEYS as in acquire.lua   ARGV[1], ARGV[2], ARGV[4], ARGV[6], ARGV[7] as in acquire.lua
-- ARGV[3] as in leave_free.lua
-- ARGV[8] and so on: the tokens of those that its process has passed the lock on to, as far as pass_on.lua may not have told the
-- server, or they may have places
-- Returns 1, or 0 when none of these tokens holds the lock, or 2 when the caller has to call again.
-- Idempotent by token: a second call finds neither a lock nor a place of it.

-- The short way, for a lock without waiters: its value has no mark, and
-- no time, because its holder has not waited either. Equals release in release.lua.
-- No more than tells whether it is this token: see shown.lua. A value of another type is not this token. Access rules may forbid
-- GETRANGE; any other error is raised: `call` runs into it again.
local value = redis.pcall('GETRANGE', KEYS[1], '0', '512')
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then value = redis.call('GET', KEYS[1]) end

local lock, queue, clock, claim, holders = unpack(KEYS)
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

-- As text: what the server takes for a number, and what the script takes to make a text of one, is a third of a command each.
local CLAIM_AND_GRACE = '1100'

-- The short way, for a marked lock: its first waiter gets it, if that one is there. Equals release below: as `give` and
-- `notify_waiters` do it, except for a server that is idle between two releases, with cold caches: there, a pattern over a member takes longer
-- than GET, and so does a number among the arguments of a command. So texts are searched for single characters, and numbers stay
-- texts. And each function of the long way takes longer to make than to call.

-- Its holder had to wait, but nobody waits behind it.
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
  -- As MEMBER does it.
  local bar = string.find(first, '|', 2, true)
  local next_ttl = bar and string.match(first, '^([1-9]%d*)|', bar + 1)
  if next_ttl then
    local next_token, begins = string.sub(first, 1, bar - 1), bar + #next_ttl + 2
    local ends = string.find(first, '|', begins, true)
    local next_inbox, is_fenced = string.sub(first, begins, (ends or 0) - 1), not ends
    -- Behind one of a counted lock, others may get it, too. The last letter of `unfenced`.
    if next_token ~= token and (is_fenced or string.byte(first, -1) == 100)
      and listeners(next_inbox, next_token, lock) > 0 then
      -- One that must be raised is drawn once more below. So is one that the server refuses: a server that is full allows it
      -- only to a script that has freed something.
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
        -- As first_behind.lua compares them.
        local its, to_tell = '|' .. next_inbox, {}
        for _, member in ipairs({second, third}) do
          local _, to = string.find(member, its, 1, true)
          local behind = to and string.byte(member, to + 1)
          if not to or behind and behind ~= 124 then to_tell[#to_tell + 1] = member end
        end
        -- If both to notify are of its process, and another process releases, the first of a third process is notified, too.
        if third and next_inbox ~= inbox and not to_tell[1] then to_tell[1] = first_behind(next_inbox) end
        for i = 1, #to_tell do
          -- The beginning of MEMBER.
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
--- @include "release" (lock, queue, clock, claim, holders, token, ttl, how, inbox, floor, kind, leaves, me, mine, number)
return release(value, {unpack(ARGV, 8)})
