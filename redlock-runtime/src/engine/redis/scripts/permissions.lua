-- Tries each command that the other scripts use.
-- KEYS[1] a key that no lock uses; it is deleted again   ARGV[1] the caller's inbox
-- Returns the commands that access rules forbid.
local key, inbox = KEYS[1], ARGV[1]
local missing = {}

-- Other errors, such as a full server, may pass.
local function try(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply.err then
    if string.find(reply.err, "The user executing the script can't", 1, true) then
      missing[#missing + 1] = command
    end
    return nil
  end
  return reply
end

try('GET', key)
try('EXISTS', key)
try('PTTL', key)
try('PEXPIRE', key, 1)
try('SET', key, '', 'XX', 'PX', 1)
try('TIME')
if try('DEL', key) then
  try('INCR', key)
  redis.call('DEL', key)
end
try('ZPOPMIN', key)
try('ZREM', key, '')
try('ZSCORE', key, '')
try('ZRANK', key, '')
try('ZRANGE', key, 0, 0)
try('ZCARD', key)
try('ZADD', key, 'XX', 0, '')
try('PUBLISH', inbox, '')
try('PUBSUB', 'NUMSUB', inbox)
return missing
