-- Moves the expiry of a lock that this token holds. Behind keep.lua, mark.lua and tell.lua.
-- KEYS[2] to KEYS[4] as in queue.lua, with 'exactly'
local holder, grace = parse(value)
if holder ~= ARGV[1] then return 0 end
local lasts, left = tonumber(ARGV[2]), without_grace(redis.call('PTTL', KEYS[1]), grace)
local shortens = ARGV[3] == 'exactly' and lasts < left
if not shortens then lasts = math.max(lasts, left) end
redis.call('PEXPIRE', KEYS[1], lasts + grace)
-- The waiters would ask when the lease was to end before; and its process, which lets it end, is not stuck.
if ARGV[3] == 'exactly' then
  redis.call('DEL', claim)
  tell(all_told(), lasts, time(), '')
end
return 1
