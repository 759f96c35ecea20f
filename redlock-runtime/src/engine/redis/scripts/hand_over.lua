-- The short way of release, for a marked lock: its first waiter gets it, if that one is there and has no followers. As `give` and
-- `tell` do it, but without functions: where a server is idle between two releases, making those takes as long as all commands of
-- a hand-over. Behind free.lua and time.lua.
-- ARGV[3] as in release.lua   ARGV[8]: there are followers that have had the lock

if value == ARGV[1] .. '!' and not ARGV[8] and (ARGV[3] ~= '1' or time() % 128 > 0) then
  local lock, queue = KEYS[1], KEYS[2]
  local LEAST, CLAIM, GRACE, MEMBER = 1000000000000000, 1000, 100, '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$'
  local first, second, third = unpack(redis.call('ZRANGE', queue, '0', '2'))
  local next_token, next_ttl, next_inbox, kind = string.match(first or '', MEMBER)
  local may_be_followed = next_token and string.find((second or '') .. '|', '|' .. next_inbox .. '|', 1, true)
  if next_token and next_token ~= ARGV[1] and not may_be_followed
    and redis.call('PUBSUB', 'NUMSUB', next_inbox)[2] > 0 then
    -- One that must be raised is drawn once more below.
    local fence = kind == '' and redis.call('INCR', KEYS[3]) or 0
    if kind ~= '' or fence >= (tonumber(ARGV[6]) or LEAST) then
      local lasts, mark, at = math.min(next_ttl, CLAIM), second and '!' or '', time()
      redis.call('ZREM', queue, first)
      redis.call('SET', lock, next_token .. mark, 'PX', second and lasts + GRACE or lasts)
      for _, member in ipairs({second, third}) do
        local its_token, _, its_inbox = string.match(member, MEMBER)
        if its_token and its_inbox ~= next_inbox then
          redis.pcall('PUBLISH', its_inbox,
            'next|' .. its_token .. '|' .. lasts .. '|' .. at .. '|' .. next_inbox .. '|' .. lock)
        end
      end
      redis.pcall('PUBLISH', next_inbox,
        'granted|' .. next_token .. '|' .. string.format('%.0f', fence) .. '|' .. at .. '|' .. mark .. '|' .. lock)
      return 1
    end
  end
end

