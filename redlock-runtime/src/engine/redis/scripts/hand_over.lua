-- The short way of release, for a marked lock: its first waiter gets it, if that one is there. As `give` and
-- `tell` do it, but for a server that is idle between two releases, with cold caches: there, a pattern over a member takes longer
-- than GET, and so does a number among the arguments of a command. So texts are searched for single characters, and numbers stay
-- texts. And each function of the long way takes longer to make than to call. Behind free.lua, granted.lua, time.lua and followers.lua.
-- ARGV[3] as in release.lua   ARGV[8] and so on: the followers that have had the lock

-- Its holder had to wait, but nobody waits behind it.
value = without_time(value, ARGV[1])
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end

if value == ARGV[1] .. '!' and (not ARGV[8] or ARGV[7] == 'unfenced') and (ARGV[3] == '0' or time() % 128 >= ARGV[3] + 0) then
  local lock, queue, claim = KEYS[1], KEYS[2], KEYS[4]
  local LEAST, CLAIM, GRACE, MEMBER = 1000000000000000, '1000', 100, '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$'
  if ARGV[8] then
    local place, places = '|' .. ARGV[2] .. '|' .. ARGV[4] .. '|unfenced', {unpack(ARGV, 8)}
    for i = 1, #places do places[i] = places[i] .. place end
    redis.call('ZREM', queue, unpack(places))
  end
  local first, second, third = unpack(redis.call('ZRANGE', queue, '0', '2'))
  if not first then
    redis.call('DEL', lock, claim)
    return 1
  end
  -- Of MEMBER.
  local bar = string.find(first, '|', 2, true)
  local next_ttl = bar and string.match(first, '^([1-9]%d*)|', bar + 1)
  if next_ttl then
    local next_token, begins = string.sub(first, 1, bar - 1), bar + #next_ttl + 2
    local ends = string.find(first, '|', begins, true)
    local next_inbox, is_fenced = string.sub(first, begins, (ends or 0) - 1), not ends
    -- Where both that are told are of its process, and it is not the one that releases, another one is told, too.
    local tells_another = third and next_inbox ~= ARGV[4]
    if tells_another then
      local its = '|' .. next_inbox .. '|'
      tells_another = string.find(second .. '|', its, 1, true) and string.find(third .. '|', its, 1, true)
    end
    -- Behind one of a counted lock, others may get it, too. The last letter of `unfenced`.
    if next_token ~= ARGV[1] and not tells_another and (is_fenced or string.byte(first, -1) == 100)
      and redis.call('PUBSUB', 'NUMSUB', next_inbox)[2] > 0 then
      -- One that must be raised is drawn once more below. So is one that the server refuses: a server that is full allows it
      -- only to a script that has freed something.
      local fence = is_fenced and redis.pcall('INCR', KEYS[3])
      if not fence or type(fence) == 'number' and fence >= (tonumber(ARGV[6]) or LEAST) then
        local lasts, mark, at = next_ttl + 0 < CLAIM + 0 and next_ttl or CLAIM, second and '!' or '', time()
        fence = fence and string.format('%.0f', fence) or '0'
        if second then redis.call('ZREM', queue, first) else redis.call('DEL', queue, claim) end
        local next_value = next_token .. '=' .. string.sub(at, 1, -7) .. mark
        redis.call('SET', lock, next_value, 'PX', second and string.format('%d', lasts + GRACE) or lasts)
        if second then redis.pcall('SET', claim, next_inbox, 'PX', '60000') end
        local followers = is_fenced and '' or followers_of(string.sub(first, bar), second, third)
        for _, member in ipairs({second, third}) do
          local its_token, _, its_inbox = string.match(member, MEMBER)
          if its_token and its_inbox ~= next_inbox then
            redis.pcall('PUBLISH', its_inbox,
              'next|' .. its_token .. '|' .. lasts .. '|' .. at .. '||' .. lock)
          end
        end
        local told = redis.pcall('PUBLISH', next_inbox,
          'granted|' .. next_token .. '|' .. fence .. '|' .. at .. '|' .. mark .. followers .. '|' .. lock)
        if type(told) == 'table' then
          redis.call('DEL', lock)
          redis.call('PUBLISH', next_inbox, '')
        end
        return 1
      end
    end
  end
end

