-- Members that one call reads at most, in a few ms: its caller calls again at once.
local MOST = 2000
