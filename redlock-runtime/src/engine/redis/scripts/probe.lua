-- Tries each command that the other scripts use, on a key that nobody uses and that is not there afterwards either.
-- KEYS[1] that key   ARGV[1] the inbox of who asks
-- Returns the commands that the caller may not run.
local key, inbox = KEYS[1], ARGV[1]
local missing = {}

-- Whatever else is wrong, a full server for one, is not for ever.
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
