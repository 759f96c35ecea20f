-- Raises the clock of fencing tokens, when a connection begins. Behind fence.lua.
return next_fence()
