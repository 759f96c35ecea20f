-- Says whether a waiter is alive: its inbox has a subscriber.
-- token: the caller   leaves: whether the caller leaves the queue, with any older place of its own under another tag of
-- its inbox
--- @with lock, token, leaves
--- @include "listeners"

-- A process has one inbox for all its waiters, so each inbox is checked once.
local heard = {}
local function is_heard(next_token, next_inbox)
  if heard[next_inbox] == nil then
    heard[next_inbox] = listeners(next_inbox, next_token, lock) > 0
  end
  return heard[next_inbox]
end

local function is_there(next_token, next_inbox)
  if next_token == token then return not leaves end
  return is_heard(next_token, next_inbox)
end
