-- Returns an inbox without its tag: in a Cluster, it ends with the tag of a slot, which changes when that slot moves.
local function without_tag(inbox)
  return string.byte(inbox, -1) == 125 and string.gsub(inbox, '{%d+}$', '') or inbox
end
