-- In ms, as text. The queue of crashed waiters expires; live waiters ask again much sooner.
local QUEUE_TTL = '60000'
