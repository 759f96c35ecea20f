-- The most members that one call reads, in a few ms. If there are more, the client calls again at once.
local MOST = 2000
