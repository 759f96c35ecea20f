-- The member of the caller in the queue: see read.lua.
--- @with token, ttl, inbox, kind
local me = token .. '|' .. ttl .. '|' .. inbox .. (kind == '' and '' or '|' .. kind)
