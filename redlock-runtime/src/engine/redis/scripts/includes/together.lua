-- How many members one command reads.
local TOGETHER = 250
