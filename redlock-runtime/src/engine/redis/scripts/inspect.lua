-- Reads the state of a lock. Behind state.lua.
return state()
