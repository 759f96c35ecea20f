-- The limit of the caller, and its member among the holders: see counted.lua.
--- @with token, inbox, kind
--- @include "number_of"
--- @include "without_tag"
local number, _, label = number_of(kind)
local mine = token .. '|' .. label .. '|' .. without_tag(inbox)
