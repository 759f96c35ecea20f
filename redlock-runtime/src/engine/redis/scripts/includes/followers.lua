-- Finds the followers of a grant: the waiters behind the new holder, as far as they are of its process, have its ttl,
-- and draw no fencing token either. Its process passes the lock on to them in this order, without a request for each.
--- @with queue

-- Returns the 22 random characters of each token, of 31 followers at most. `rest`: what is behind the token in the
-- member of the new holder.
local function followers_of(rest, first, second)
  if string.sub(first or '', -#rest) ~= rest then return '' end
  local members = {first}
  if string.sub(second or '', -#rest) == rest then members = redis.call('ZRANGE', queue, '0', '30') end
  local count, find, sub, byte = 0, string.find, string.sub, string.byte
  for i = 1, #members do
    -- A new text takes longer than a search, and a table that grows takes longer than one that exists.
    local member = members[i]
    local _, ends = find(member, rest, 24, true)
    if ends ~= #member or byte(member, 23) ~= 64 then break end
    members[i], count = sub(member, 1, 22), i
  end
  return table.concat(members, '', 1, count)
end
