-- Moves the expiry of a lock that this token holds, so that WAIT has a write after the grant.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: a second call renews, too, and never shortens the lease.
--- @include "extend"
return (extend(KEYS[1], ARGV[1], ARGV[2]))
