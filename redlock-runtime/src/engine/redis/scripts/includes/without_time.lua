-- The time of the grant: behind the token in the value of a lock, `=` and the server's time in seconds,
-- where its holder had to wait. The time in the token is when it asked. For people alone.

-- Returns the value of a lock without that, if it is that of this token.
local function without_time(value, token)
  -- Looks at one letter first: each text that is made costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
