-- The caller, for acquire, enter and their releases. Behind queue.lua.
--
-- KEYS[3] the clock of fencing tokens, one per server
-- ARGV[1] token   ARGV[2] ttl in ms   ARGV[4] inbox: the channel that the caller subscribes to; empty for one try
-- ARGV[7] its kind: 'unfenced', it draws no fencing token; 'once', its body runs once; or of a counted lock, n and how many it allows
local token, ttl, kind = ARGV[1], ARGV[2], ARGV[7] or ''
local unfenced = kind == 'unfenced'
local me = token .. '|' .. ttl .. '|' .. (ARGV[4] or '') .. (kind == '' and '' or '|' .. kind)

