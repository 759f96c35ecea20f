-- Members that are read together.
local TOGETHER = 250
