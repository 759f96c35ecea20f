-- The arguments that finish has and release has not. In front of all others.
-- ARGV[8] the fingerprint of the request, or '-'   ARGV[9] how long the record lasts in ms   ARGV[10] the runner
-- ARGV[11] 'done': ARGV[12] is the result, which is stored; 'undone': the body has not run, or has failed, and may run again;
-- 'interrupted': it has begun
local fingerprint, record_lasts, runner, how, result = unpack(ARGV, 8, 12)
for i = #ARGV, 8, -1 do ARGV[i] = nil end

