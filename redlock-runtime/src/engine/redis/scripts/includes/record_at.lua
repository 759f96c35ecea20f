-- Reads the record of a leader.
-- Returns the term, since when it leads in ms since 1970, the token of its lock, and what it announces; nil without a
-- record, or if a client of another kind has written the value. No record is longer than the part that is read, as in
-- shown.lua.
local function record_at(key)
  local record = redis.pcall('GETRANGE', key, '0', '2047')
  if type(record) == 'table' then
    record = string.find(record.err, 'WRONGTYPE', 1, true) and '' or redis.call('GET', key) or ''
  end
  return string.match(record, '^(%d+)|(%d+)|([^|]+)|(.*)$')
end
