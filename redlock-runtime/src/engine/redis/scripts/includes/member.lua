-- The queue of a lock is a sorted set that exists while the lock has waiters. Member: token|ttl in ms|inbox, and |unfenced
-- for one that draws no fencing token, or |once for one whose body runs once, which asks again when it is granted
-- the lock by a push, or |n5 for one that allows five at a time, itself included, and |n0 for one
-- that allows any number; score: order of arrival.
local MEMBER = '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$'
