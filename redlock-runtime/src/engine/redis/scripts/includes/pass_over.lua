-- Passes over a first waiter that keeps out a caller with room, and does not answer: see hinted.lua.
--- @with lock, queue, claim, holders, permits, inbox
--- @include "claim"
--- @include "queue_ttl"
--- @include "time"
--- @include "read"
--- @include "without_tag"
--- @include "notify"
--- @include "evict" (queue)
--- @include "counted" (holders, permits)
--- @include "hinted" (queue, claim, holders, permits, inbox)

-- Removes the waiters of its process. Returns false if the caller has to call again.
local function pass_over()
  if not hinted or hinted.answers or hinted.waited < CLAIM + 0 or redis.call('ZRANGE', queue, 0, 0)[1] ~= hinted.member then
    return true
  end
  local inboxes = evict({[without_tag(hinted.inbox)] = true})
  if not inboxes then return false end
  redis.call('DEL', claim)
  hinted = nil
  for its_inbox in pairs(inboxes) do notify(its_inbox, 'gone||0|0||' .. lock) end
  return true
end

-- Sends the first waiter a hint, for a caller that did not get in. Returns after how many ms the caller asks again: when
-- a lease ends after `left` ms, too, because the key ends soon after the last lease, and anybody may take it then.
local function hint_first(left)
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  local first_token, _, its_inbox = read(first)
  if not its_inbox or without_tag(its_inbox) == without_tag(inbox) then return left end
  if not hinted or hinted.member ~= first or hinted.waited >= CLAIM + 0 then
    local noted = redis.pcall('SET', claim, now_ms() .. '|' .. first, 'PX', QUEUE_TTL)
    if type(noted) == 'table' and noted.err then return left end
    hinted = {waited = 0}
    redis.call('PEXPIRE', queue, QUEUE_TTL - CLAIM)
    notify(its_inbox, 'next|' .. first_token .. '|0|' .. time() .. '||' .. lock)
  end
  return math.max(math.min(CLAIM - hinted.waited, left), 1)
end
