-- Returns token, ttl, inbox and kind of a waiter ('' for one that draws a fencing token); nil for a malformed member.
--- @include "member"
local function read(member)
  return string.match(member or '', MEMBER)
end
