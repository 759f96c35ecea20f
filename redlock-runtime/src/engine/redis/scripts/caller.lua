-- The caller, for acquire and release. Behind queue.lua.
--
-- KEYS[3] the clock of fencing tokens, one per server
-- ARGV[1] token   ARGV[2] ttl in ms   ARGV[4] inbox: the channel that the caller subscribes to; empty for one try
-- ARGV[7] 'unfenced': it draws no fencing token
local token, ttl = ARGV[1], ARGV[2]
local unfenced = ARGV[7] == 'unfenced'
local me = token .. '|' .. ttl .. '|' .. (ARGV[4] or '') .. (unfenced and '|unfenced' or '')

