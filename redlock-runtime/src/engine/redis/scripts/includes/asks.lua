-- Says how the caller asks for a lock.
-- how: see acquire.lua
--- @with how
local waits = how ~= '0' and how ~= 'late'
local joins = how == 'join' or how == 'join_again'
local has_waited = waits and not joins
