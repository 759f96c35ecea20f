-- The key of a marked lock, and of a counted lock, outlives its lease by this time, in ms: until the head of the queue
-- has asked, no other client finds it free.
local GRACE = 100
