-- How long a queue lasts after the last request, in ms, as text. The queue of crashed waiters expires; live waiters ask
-- again much sooner.
local QUEUE_TTL = '60000'
