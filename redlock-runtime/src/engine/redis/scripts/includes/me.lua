-- The member of the queue that the caller is: see read.lua.
--- @with token, ttl, inbox, kind
local me = token .. '|' .. ttl .. '|' .. inbox .. (kind == '' and '' or '|' .. kind)
