-- Admits the waiters in front of the queue, as long as they may be inside together: each for a claim, and the caller
-- for `lasts`. An exclusive waiter gets the lock if nobody is inside. Dead and malformed waiters in front leave the
-- queue.
-- mine: the member of the caller among the holders   number: how many it allows
--- @with lock, queue, clock, claim, holders, permits, floor, inbox, token, leaves, mine, number
--- @include "claim"
--- @include "most"
--- @include "together"
--- @include "time"
--- @include "read"
--- @include "without_tag"
--- @include "number_of"
--- @include "notify"
--- @include "central" (permits)
--- @include "first_two" (queue)
--- @include "notified_waiters" (queue)
--- @include "evict" (queue)
--- @include "is_there" (lock, token, leaves)
--- @include "grant_one" (lock, queue, clock, claim, floor, inbox)
--- @include "counted" (holders, permits)
--- @include "has_room" (holders, permits)
--- @include "add_holders" (lock, clock, claim, holders, permits, floor)
--- @include "notify_each" (lock, queue, holders, permits, inbox)

-- The most waiters that one call admits.
local IN_ONE = 250

-- Returns the holder for an answer: the value of the lock, and how many are inside. If one of them has several permits,
-- also how many permits they have. If a central limit counts, the value has that limit, and `c` follows both.
local function who_is_inside()
  if limit == 1 then read_limits() end
  local counts = allowed(limit)
  local who = '%holders|' .. counts .. '|' .. phase .. '|' .. inside
  if central and counts > 0 then return who .. '|' .. inside + extra .. '|c' end
  return extra == 0 and who or who .. '|' .. inside + extra
end

-- A waiter that takes more permits than the central limit allows leaves. Its process asks again, and learns why.
local refused = {}
local function is_refused(its_inbox, its_kind)
  local its_number, its_weight = number_of(its_kind)
  if its_weight == 1 or its_weight <= allowed(its_number) then return false end
  if not refused[its_inbox] then notify(its_inbox, 'gone||0|0||' .. lock) end
  refused[its_inbox] = true
  return true
end

-- Returns what `grant_next` returns: the caller's token, if the caller is inside, or may take the lock for itself
-- alone; the token of a waiter that got the lock alone, and for how many ms; nil if nobody is inside and the queue is
-- empty; false if the caller has to call again. Otherwise returns who_is_inside(), and in how many ms there is room for
-- the caller. The third value says whether the new first two waiters were notified.
local function admit_waiters(lasts)
  if not holders then return false end
  local looked, size, granted, is_inside, is_over = 0, 2, {}, false, false
  while looked < MOST and not is_over do
    local members, gone = redis.call('ZRANGE', queue, 0, size - 1), 0
    for i, member in ipairs(members) do
      local next_token, next_ttl, next_inbox, its_kind = read(member)
      if next_token and is_there(next_token, next_inbox) and not is_refused(next_inbox, its_kind) then
        local its_number, its_weight, its_label = number_of(its_kind)
        is_over = not has_room(its_number, its_weight)
        if is_over then break end
        if its_number == 1 then
          redis.call('ZPOPMIN', queue, i)
          local waiters = first_two()
          if #waiters == 0 then redis.call('DEL', claim) end
          if next_token == token then return token, waiters end
          return next_token, grant_one(next_token, next_ttl, next_inbox, its_kind, waiters), true
        end
        is_over = #granted == IN_ONE
        if is_over then
          -- That waiter asks at once, and its call admits the next ones.
          notify(next_inbox, 'free|' .. next_token .. '|0|0||' .. lock)
          break
        end
        if next_token == token then
          is_inside = true
          admit(mine, its_number, its_weight, lasts)
        else
          admit(next_token .. '|' .. its_label .. '|' .. without_tag(next_inbox), its_number, its_weight, math.min(next_ttl, CLAIM))
          granted[#granted + 1] = {next_token, next_inbox}
        end
      end
      gone = i
    end
    if gone > 0 then redis.call('ZPOPMIN', queue, gone) end
    have_left = have_left or gone > 0
    add_holders()
    is_over = is_over or #members < size
    looked, size = looked + gone, TOGETHER
  end
  if have_left and inside > 0 then
    local waiters = first_two()
    local _, _, first = read(waiters[1])
    notify_each(first == inbox and waiters or notified_waiters())
  end
  for _, its in ipairs(granted) do
    notify(its[2], 'granted|' .. its[1] .. '|' .. phase .. '|' .. time() .. '||' .. lock)
  end
  if is_inside then return token end
  if not is_over then return false end
  if inside == 0 then return nil end
  return who_is_inside(), left_for(number, weight_of(mine)), have_left
end
