-- A write behind the grant of a lock, for WAIT: it moves the expiry of a lock that this token holds.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms
-- Returns 1, or 0 when this token does not hold the lock.
-- Idempotent: a second call renews, too, and never to an earlier time.
--- @include "extend"
return (extend(KEYS[1], ARGV[1], ARGV[2]))
