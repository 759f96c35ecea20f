//! Mistakes with the queue and with the mark of a lock that callers wait for; each breaks a rule of `tests/models`.

use super::files::{
    ACQUIRE_LUA, ASKING, DECODE, DELETE_LUA, ENQUEUE_LUA, EVICT_STALLED_LUA, EXTEND_LUA, GRACE_LUA,
    GRANT_NEXT_LUA, GRANT_ONE_LUA, HOLDING, INCLUDED_RELEASE_LUA, LEAVE_FREE_LUA, NOTIFY_PLACE_LOST_LUA,
    NOTIFY_WAITERS_LUA, ON_REPLY, RELEASE_LUA, RENEW_LUA, SET_LOCK_LUA, SET_MARK_LUA, STANDING, WAITING,
};
use super::{
    CAUSE, EXCLUSION, IN_TIME, Mutant, NO_ORPHAN, NOTHING_LEFT, ONE_CLAIM, ORDER, PROMPT, STRANGERS, edit,
};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "waiter-sets",
        wrong: "A waiter that asks again takes a missing key as a newcomer does: without the mark, for its ttl, and keeps its place.",
        violates: PROMPT,
        edits: &[
            edit(ACQUIRE_LUA, "~= 'unfenced' and (ARGV[3] == '0' or ARGV[3] == 'join')\n", "~= 'unfenced'\n"),
            edit(
                ACQUIRE_LUA,
                "== 'unfenced' and (ARGV[3] == '0' or ARGV[3] == 'join') then\n",
                "== 'unfenced' then\n",
            ),
        ],
    },
    Mutant {
        name: "ask-does-not-compare",
        wrong: "A caller that asks again after a lost reply does not see that it has the lock.",
        violates: PROMPT,
        edits: &[edit(ACQUIRE_LUA, "if value and holder ~= token and (", "if value and (")],
    },
    Mutant {
        name: "ask-compares-the-mark",
        wrong: "A caller that asks again does not see that it has the lock once others wait for it.",
        violates: PROMPT,
        edits: &[edit(
            ACQUIRE_LUA,
            "if value and holder ~= token and (",
            "if value and value ~= token and (",
        )],
    },
    Mutant {
        name: "repeated-ask-does-not-renew",
        wrong: "A lock that an earlier request took is counted from the latest request, but expires after the earlier one.",
        violates: EXCLUSION,
        edits: &[edit(
            ACQUIRE_LUA,
            "return (take_lock(left, grace, first_two(), granted))",
            "return kind == 'unfenced' and 0 or next_fence(clock, floor)",
        )],
    },
    Mutant {
        name: "grant-counts-from-its-receipt",
        wrong: "A lease that was granted by a push counts from when the push was read.",
        violates: EXCLUSION,
        edits: &[edit(
            HOLDING,
            "let since = waiting.standing.granted_since(cx.now, at);",
            "let since = waiting.standing.granted_since(cx.now, at).map(|_| cx.now);",
        )],
    },
    Mutant {
        name: "busy-counts-from-its-receipt",
        wrong: "A waiter counts what is left of the lease in front from when it reads that.",
        violates: PROMPT,
        edits: &[edit(
            WAITING,
            "holder.expires_in.map(|left| sent.after(left + MILLISECOND))",
            "holder.expires_in.map(|left| now.after(left + MILLISECOND))",
        )],
    },
    Mutant {
        name: "next-counts-from-its-receipt",
        wrong: "A waiter that is told of a new lease in front counts it from when it reads that.",
        violates: PROMPT,
        edits: &[edit(
            WAITING,
            "let over = self.standing.local_time_of(now, at).after(claim + MILLISECOND);\n        let until",
            "let over = now.after(claim + MILLISECOND);\n        let until",
        )],
    },
    Mutant {
        name: "join-does-not-mark",
        wrong: "A caller joins the queue, and the lock gets no mark: its holder deletes it.",
        violates: PROMPT,
        edits: &[
            edit(
                ACQUIRE_LUA,
                "enqueue()\n    set_mark(value, pttl, holder, grace)\n",
                "enqueue()\n    if has_waited then set_mark(value, pttl, holder, grace) end\n",
            ),
            edit(ACQUIRE_LUA, "        set_mark(value, pttl, holder, grace)\n", ""),
        ],
    },
    Mutant {
        name: "again-does-not-mark",
        wrong: "A waiter that asks again leaves a lock unmarked that has lost its mark, as in older data.",
        violates: PROMPT,
        edits: &[edit(
            ACQUIRE_LUA,
            "enqueue()\n    set_mark(value, pttl, holder, grace)\n",
            "enqueue()\n    if joins then set_mark(value, pttl, holder, grace) end\n",
        )],
    },
    Mutant {
        name: "again-removes-the-mark",
        wrong: "A waiter that finds its own lock removes the mark, although others wait.",
        violates: PROMPT,
        edits: &[edit(
            ACQUIRE_LUA,
            "  return (take_lock(left, grace, first_two(), granted))\n",
            "  local fence = take(left, grace, first_two(), granted)\n  \
             redis.call('SET', lock, token, 'PX', redis.call('PTTL', lock))\n  return fence\n",
        )],
    },
    Mutant {
        name: "grant-forgets-the-mark",
        wrong: "A lock is granted without a mark, although other waiters remain.",
        violates: PROMPT,
        edits: &[
            edit(GRANT_ONE_LUA, "granted_now(), lasts, nil, waiters,", "granted_now(), lasts, nil, {},"),
            edit(RELEASE_LUA, "second and '!' or ''", "''"),
        ],
    },
    Mutant {
        name: "own-grant-forgets-the-mark",
        wrong: "The head of the queue takes the lock without a mark, although other waiters remain.",
        violates: PROMPT,
        edits: &[edit(ACQUIRE_LUA, "granted, lasts, grace, waiters,", "granted, lasts, grace, {},")],
    },
    Mutant {
        name: "renewal-removes-the-mark",
        wrong: "A renewal writes the lock without its mark.",
        violates: PROMPT,
        edits: &[edit(
            EXTEND_LUA,
            "redis.call('PEXPIRE', lock, lasts + grace)",
            "redis.call('SET', lock, token, 'PX', lasts)",
        )],
    },
    Mutant {
        name: "renewal-compares-the-mark",
        wrong: "A renewal takes the token of a marked lock for another one.",
        violates: CAUSE,
        edits: &[edit(
            EXTEND_LUA,
            "if holder ~= token then return 0 end",
            "if value ~= token then return 0 end",
        )],
    },
    Mutant {
        name: "grant-tells-no-waiter",
        wrong: "When a waiter is granted the lock, the next ones are not told when to ask.",
        violates: PROMPT,
        edits: &[
            edit(GRANT_ONE_LUA, "  notify_waiters(waiters, lasts, now, next_inbox)\n", ""),
            edit(RELEASE_LUA, "for i = 1, #to_tell do", "for i = 1, 0 do"),
        ],
    },
    Mutant {
        name: "own-grant-tells-no-waiter",
        wrong: "When the head takes the lock, the next ones are not told when to ask.",
        violates: PROMPT,
        edits: &[edit(ACQUIRE_LUA, "    notify_waiters(waiters, lasts, time(), inbox)\n", "")],
    },
    Mutant {
        name: "leaving-tells-no-waiter",
        wrong: "A waiter that was told when to ask leaves, and the next ones are not told.",
        violates: PROMPT,
        edits: &[edit(INCLUDED_RELEASE_LUA, "  notify_waiters(waiters, left, time(), '')\n", "")],
    },
    Mutant {
        name: "leaving-second-tells-no-waiter",
        wrong: "The second waiter leaves, the first one dies, and the third was not told when to ask.",
        violates: PROMPT,
        edits: &[edit(INCLUDED_RELEASE_LUA, "if place > 1 then return", "if place > 0 then return")],
    },
    Mutant {
        name: "min-hold-tells-no-waiter",
        wrong: "A lock that is kept for its `min_hold` only gets an earlier expiry, and its waiters are not told.",
        violates: PROMPT,
        edits: &[edit(RENEW_LUA, "  notify_waiters(notified_waiters(), lasts, time(), '')\n", "")],
    },
    Mutant {
        name: "one-waiter-is-told",
        wrong: "One waiter is told when to ask, not two, and it may be dead.",
        violates: PROMPT,
        edits: &[
            edit(NOTIFY_WAITERS_LUA, "in ipairs(others) do", "in ipairs({others[1]}) do"),
            edit(LEAVE_FREE_LUA, "told < 2 or are_of_one and next_inbox ~= first", "told < 1"),
        ],
    },
    Mutant {
        name: "marked-lock-is-deleted",
        wrong: "The short way of a release deletes a marked lock, although its mark says that callers wait.",
        violates: PROMPT,
        edits: &[
            edit(
                RELEASE_LUA,
                "if value == ARGV[1] then return",
                "if value == ARGV[1] or value == ARGV[1] .. '!' then return",
            ),
            edit(
                DELETE_LUA,
                "if value == ARGV[1] then return",
                "if value == ARGV[1] or value == ARGV[1] .. '!' then return",
            ),
        ],
    },
    Mutant {
        name: "plain-delete-that-finds-a-mark-is-all",
        wrong: "A plain delete that finds a mark is not followed by the script: the lock stays for its ttl.",
        violates: NO_ORPHAN,
        edits: &[edit(
            DECODE,
            "(Action::Acquire(_), Value::Nil) | (Action::Release, Value::Int(0)) => {",
            "(Action::Release, Value::Int(0)) => Reply::NotHeld,\n        (Action::Acquire(_), Value::Nil) => {",
        )],
    },
    Mutant {
        name: "cancelled-waiter-stays",
        wrong: "A waiter that cancels leaves its place in the queue behind.",
        violates: NOTHING_LEFT,
        edits: &[edit(
            WAITING,
            "self.requests.unanswered > u32::from(!was_sent) || self.standing.is_queued()",
            "self.requests.unanswered > u32::from(!was_sent)",
        )],
    },
    Mutant {
        name: "loss-sends-no-release",
        wrong: "A holder whose lock is lost while a request of its waiter is unanswered leaves a place in the queue behind.",
        violates: NOTHING_LEFT,
        edits: &[
            edit(HOLDING, "|| held.queue.may_have_place()", ""),
            edit(HOLDING, "cx.abilities.votes || cx.abilities.hands_over;", "cx.abilities.votes;"),
        ],
    },
    Mutant {
        name: "waiter-does-not-poll",
        wrong: "A waiter asks only when it is told, or when the lease in front is over: not after an operator's `DEL`.",
        violates: IN_TIME,
        edits: &[edit(
            STANDING,
            "(ASK_AGAIN_QUEUED * (2 + self.in_front.min(100)) / 2).min(longest)",
            "Duration::from_secs(3600 + u64::from(self.in_front))",
        )],
    },
    Mutant {
        name: "waiter-trusts-strangers",
        wrong: "A waiter relies on the push of a client of another kind, which sends none.",
        violates: PROMPT,
        edits: &[
            edit(STANDING, "place.is_none() || (leads || has_waited) && is_foreign", "place.is_none()"),
            edit(
                STANDING,
                "if self.leads && is_foreign => ASK_AGAIN_AFTER,",
                "if self.leads && is_foreign => ASK_AGAIN_AT_LAST,",
            ),
        ],
    },
    Mutant {
        name: "lost-answer-is-waited-for",
        wrong: "A waiter whose connection broke waits for the answer that was lost with it.",
        violates: IN_TIME,
        edits: &[edit(
            WAITING,
            "if self.awaits != Awaits::LocalTurn {",
            "if !matches!(self.awaits, Awaits::LocalTurn | Awaits::Reply { .. }) {",
        )],
    },
    Mutant {
        name: "marked-lock-has-hardly-a-grace",
        wrong: "A marked lock is gone a millisecond after its lease, and a newcomer passes its head.",
        violates: ORDER,
        edits: &[edit(GRACE_LUA, "local GRACE = 100\n", "local GRACE = 1\n")],
    },
    Mutant {
        name: "mark-adds-no-grace",
        wrong: "A lock that gets a mark ends as before, so its lease seems to be over too early.",
        violates: EXCLUSION,
        edits: &[edit(SET_MARK_LUA, "pttl + GRACE))", "pttl))")],
    },
    Mutant {
        name: "grant-adds-no-grace",
        wrong: "A lock that is granted with a mark has no grace, so its lease seems to be over too early.",
        violates: EXCLUSION,
        edits: &[edit(SET_LOCK_LUA, "lasts, mark = lasts + GRACE, '!'", "mark = '!'")],
    },
    Mutant {
        name: "renewal-adds-no-grace",
        wrong: "A renewal of a marked lock adds no grace, so its lease seems to be over too early.",
        violates: EXCLUSION,
        edits: &[edit(
            EXTEND_LUA,
            "redis.call('PEXPIRE', lock, lasts + grace)",
            "redis.call('PEXPIRE', lock, lasts)",
        )],
    },
    Mutant {
        name: "foreign-value-is-marked",
        wrong: "The value of a client of another kind gets a mark, so that client no longer finds its own lock.",
        violates: STRANGERS,
        edits: &[edit(
            SET_MARK_LUA,
            "if not holder or grace > 0 then return end",
            "if not value or grace > 0 then return end",
        )],
    },
    Mutant {
        name: "caller-that-goes-keeps-its-place",
        wrong: "A caller that releases, or leaves the queue, keeps its place there.",
        violates: NOTHING_LEFT,
        edits: &[
            edit(
                INCLUDED_RELEASE_LUA,
                "then return redis.call('ZREM', queue, me, unpack(followers)) end",
                "then return end",
            ),
            edit(
                INCLUDED_RELEASE_LUA,
                "  if #waiters == 0 then return redis.call('DEL', queue, claim) end\n",
                "",
            ),
            edit(
                INCLUDED_RELEASE_LUA,
                "    redis.call('ZREM', queue, me, unpack(followers))\n    local left",
                "    local left",
            ),
            edit(
                INCLUDED_RELEASE_LUA,
                "  redis.call('ZREM', queue, me, unpack(followers))\n  if leave_free()",
                "  if leave_free()",
            ),
        ],
    },
    Mutant {
        name: "newcomer-passes-the-queue",
        wrong: "A newcomer that finds the lease of a marked lock over takes it, although others wait.",
        violates: ORDER,
        edits: &[edit(
            ACQUIRE_LUA,
            "  if redis.call('EXISTS', queue) == 0 then\n",
            "  if joins or redis.call('EXISTS', queue) == 0 then\n",
        )],
    },
    Mutant {
        name: "free-lock-with-a-queue-is-left",
        wrong: "A newcomer that finds a free lock with a queue only joins, and does not give it to the head.",
        violates: PROMPT,
        edits: &[
            edit(
                ACQUIRE_LUA,
                "local is_over = not inside_now\n",
                "local is_over = not inside_now and not (joins and redis.call('EXISTS', queue) == 1)\n",
            ),
            edit(ACQUIRE_LUA, "if waits or have_left then", "if inside_now then"),
            edit(ACQUIRE_LUA, "return {0, holder or inside_now,", "return {0, holder or value or '',"),
        ],
    },
    Mutant {
        name: "waiter-that-has-gone-is-granted",
        wrong: "A waiter whose connection has ended is granted the lock.",
        violates: PROMPT,
        edits: &[
            edit(
                GRANT_NEXT_LUA,
                "if next_token and is_there(next_token, next_inbox) then",
                "if next_token then",
            ),
            edit(RELEASE_LUA, " and listeners(next_inbox, next_token, lock) > 0 then", " then"),
        ],
    },
    Mutant {
        name: "claim-is-not-noted",
        wrong: "Nobody knows whose claim it is that is over: each waiter of a stopped process has one.",
        violates: ONE_CLAIM,
        edits: &[
            edit(
                SET_LOCK_LUA,
                "  if #waiters > 0 then redis.pcall('SET', claim, next_inbox, 'PX', QUEUE_TTL) end\n",
                "",
            ),
            edit(
                RELEASE_LUA,
                "        if second then redis.pcall('SET', claim, next_inbox, 'PX', QUEUE_TTL) end\n",
                "",
            ),
        ],
    },
    Mutant {
        name: "only-waiters-look-at-the-claim",
        wrong: "A newcomer that finds a claim over hands the lock to the next waiter of the stopped process.",
        violates: ONE_CLAIM,
        edits: &[edit(
            ACQUIRE_LUA,
            "  if not evict_stalled() then return {3} end\nend\n",
            "  if has_waited and not evict_stalled() then return {3} end\nend\n",
        )],
    },
    Mutant {
        name: "those-that-are-dropped-are-not-told",
        wrong: "A process that was only slow has lost its places in the queue, and its waiters do not hear of it.",
        violates: IN_TIME,
        edits: &[
            edit(EVICT_STALLED_LUA, "    notify(stuck, 'gone||0|0||' .. lock)\n", ""),
            edit(ON_REPLY, "                if ran_out {\n", "                if ran_out && false {\n"),
            edit(
                NOTIFY_PLACE_LOST_LUA,
                "if not has_waited or how == 'rejoin' then return end",
                "do return end",
            ),
        ],
    },
    Mutant {
        name: "waiter-joins-again",
        wrong: "A waiter that asks again goes to the end of the queue.",
        violates: ORDER,
        edits: &[edit(
            ENQUEUE_LUA,
            "  if not redis.call('ZSCORE', queue, me) then\n    notify_place_lost()\n",
            "  redis.call('ZREM', queue, me)\n  if true then\n",
        )],
    },
    Mutant {
        name: "cancelled-attempt-sends-no-release",
        wrong: "A caller that goes away sends no release of a lock that it may have got.",
        violates: NO_ORPHAN,
        edits: &[edit(
            ASKING,
            "        if waiting.must_release(was_sent) {\n",
            "        if waiting.must_release(was_sent) && false {\n",
        )],
    },
];
