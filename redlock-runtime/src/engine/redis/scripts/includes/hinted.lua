-- Finds out whether the first waiter answers. It keeps out the waiters behind it that have room beside the holders, and
-- its process may be stopped. So a caller that has room sends it a hint. The first waiter then has to ask within a
-- claim, or all waiters of its process leave the queue. The key of the claim has the time of the hint, in ms of the
-- server's time, and the member of the first waiter: no inbox contains `|`. A waiter that asks makes the queue last for
-- QUEUE_TTL again, in any version of these scripts. While the first waiter has not answered, a request of another
-- process makes the queue last for a claim less.
--- @with queue, claim, holders, permits, inbox
--- @include "claim"
--- @include "queue_ttl"
--- @include "read"
--- @include "without_tag"
--- @include "counted" (holders, permits)
local hinted

local function find_hinted()
  local since, member = string.match(limit and redis.call('GET', claim) or '', '^(%d+)|(.+)$')
  local _, _, its_inbox = read(member)
  if not its_inbox then return end
  local waited = now_ms() - since
  local answers = without_tag(its_inbox) == without_tag(inbox)
    or waited < 0 or redis.call('PTTL', queue) > QUEUE_TTL - CLAIM / 2 - waited
  hinted = {member = member, inbox = its_inbox, waited = waited, answers = answers}
end

-- Called after `enqueue`.
local function leave_unanswered()
  if hinted and not hinted.answers then
    redis.call('PEXPIRE', queue, math.max(QUEUE_TTL - CLAIM - hinted.waited, QUEUE_TTL / 2))
  end
end
