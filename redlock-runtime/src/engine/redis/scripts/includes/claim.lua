-- A granted waiter has to claim its lock by a renewal within this time, in ms, so a stuck waiter costs the others no
-- more. It is text, because the server takes longer for a number among the arguments of a command.
local CLAIM = '1000'
