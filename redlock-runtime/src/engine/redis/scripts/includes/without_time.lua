-- The time of the grant: behind the token in the value of a lock, `=` and the server's time in seconds,
-- where its holder had to wait. The time in the token is when it asked. For people alone.

-- Returns the value of a lock without that, if it is that of this token.
local function without_time(value, token)
  if type(value) ~= 'string' or string.sub(value, 1, #token + 1) ~= token .. '=' then return value end
  return token .. (string.sub(value, -1) == '!' and '!' or '')
end
