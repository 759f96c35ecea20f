-- The time of the grant follows the token in the value of a lock whose holder had to wait: `=` and the server's time in
-- seconds. (The time in the token is when the holder asked.) Only people read it.

-- Returns the value of a lock without the time of the grant, if it is this token's.
local function without_time(value, token)
  -- Compares one letter first, because each new text costs as much as half a command.
  if type(value) ~= 'string' or string.byte(value, #token + 1) ~= 61 or string.sub(value, 1, #token) ~= token then return value end
  return token .. (string.byte(value, -1) == 33 and '!' or '')
end
