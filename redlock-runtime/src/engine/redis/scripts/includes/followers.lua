-- The followers of a grant: the waiters behind the one that gets the lock, as far as they are of its process, have its ttl, and
-- draw no fencing token either. Its process passes the lock on to them in this order, without a request for each.
--- @with queue

-- Names them, 31 at most. `rest`: what is behind the token in the place of the one that gets the lock. Returns the 22 random characters of each
-- token.
local function followers_of(rest, first, second)
  if string.sub(first or '', -#rest) ~= rest then return '' end
  local members = {first}
  if string.sub(second or '', -#rest) == rest then members = redis.call('ZRANGE', queue, '0', '30') end
  local count, find, sub, byte = 0, string.find, string.sub, string.byte
  for i = 1, #members do
    -- Each new text takes longer than a search, and a table that grows longer than one that is there.
    local member = members[i]
    local _, ends = find(member, rest, 24, true)
    if ends ~= #member or byte(member, 23) ~= 64 then break end
    members[i], count = sub(member, 1, 22), i
  end
  return table.concat(members, '', 1, count)
end
