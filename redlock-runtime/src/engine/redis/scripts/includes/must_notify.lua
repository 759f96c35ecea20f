-- Publishes as notify.lua, but raises an error, as redis.call does.
local function must_notify(inbox, text)
  redis.call('PUBLISH', inbox, text)
end
