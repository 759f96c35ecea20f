-- A waiter is there while its inbox has a subscriber.
-- token: the caller   leaves: the caller leaves. An older place of its own, under another tag of its inbox, goes with it
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
