-- No fencing token is less, unless the clock has lost its data. In us since 1970: a time long before this one.
local LEAST = 1000000000000000
