-- The queue of a lock is a sorted set that exists while the lock has waiters. Member: token|ttl in ms|inbox, and then
-- |unfenced for a waiter that draws no fencing token, or |once for a waiter whose body runs once, which asks again when
-- a push grants it the lock, or |n5 for a waiter that allows five at a time, itself included, or |n0 for one that
-- allows any number. Score: order of arrival.
local MEMBER = '^([^|]+)|([1-9]%d*)|([^|]*)|?(.*)$'
