-- A granted waiter has to claim its lock by a renewal within this time, in ms: a stuck waiter costs the others no more. As text:
-- the server takes longer over a number among the arguments of a command.
local CLAIM = '1000'
