-- What a connection begins with. Behind fence.lua.
return next_fence()
