-- How many the caller allows inside at a time, itself included, and its member among the holders: see counted.lua.
--- @with token, inbox, kind
--- @include "number_of"
--- @include "without_tag"
local number = number_of(kind)
local mine = token .. '|' .. number .. '|' .. without_tag(inbox)
