-- Returns token, ttl and inbox of a waiter, and what is behind, '' for a fenced one; nil for a malformed member.
--- @include "member"
local function read(member)
  return string.match(member or '', MEMBER)
end
