-- No fencing token is less, unless the clock has lost its data: below all times of this age, in us.
local LEAST = 1000000000000000
