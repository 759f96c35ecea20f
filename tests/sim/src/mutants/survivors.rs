//! Changes that once left every test green.

use super::files::{
    ADD_WAITER_LUA, ASKING, ENQUEUE_LUA, LEASE, LINK, LOCK_ALL, ON_REPLY, REDIRECT, RESERVE_LUA, TABLE,
};
use super::{
    CAUSE, FENCES, IN_TIME, MAX_HOLD, Mutant, NO_ORPHAN, NOTHING_LEFT, ORDER, PROMPT, TRUE_OUTCOME, edit,
};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "next-of-a-process-never-asks",
        wrong: "The waiter that is now the first of its process relies on a push, which may be lost.",
        violates: IN_TIME,
        edits: &[edit(
            ASKING,
            "(Awaits::ServerTurn, _) => waiting.keep_asking(cx.now, kept_at),",
            "(Awaits::ServerTurn, _) => {}",
        )],
    },
    Mutant {
        name: "refused-renewal-is-not-repeated",
        wrong: "After a renewal that the server refused for a moment, no other one is sent.",
        violates: CAUSE,
        edits: &[edit(
            ON_REPLY,
            "                held.renewals.retry(cx.now, held.ttl.current());\n",
            "                held.renewals.suspend();\n",
        )],
    },
    Mutant {
        name: "answers-are-no-sign-of-life",
        wrong: "A connection is given up a time limit after the oldest batch, although the server answers all the while.",
        violates: CAUSE,
        edits: &[edit(LINK, "batch.sent.max(self.heard)", "batch.sent")],
    },
    Mutant {
        name: "fences-are-reserved-ahead-of-the-time",
        wrong: "A process reserves fencing tokens above the server's time, to which a server that loses its data goes back.",
        violates: FENCES,
        edits: &[edit(RESERVE_LUA, "if last > now[1] * 1000000 + now[2] then return 0 end\n", "")],
    },
    Mutant {
        name: "flush-wakes-no-waiter",
        wrong: "When a server tells that all its keys are gone, the waiters sleep on.",
        violates: PROMPT,
        edits: &[edit(TABLE, "self.at_each(now, Lock::flushed);", "let _ = Lock::flushed;")],
    },
    Mutant {
        name: "queue-never-expires",
        wrong: "The queue of waiters that have died stays for ever.",
        violates: NOTHING_LEFT,
        edits: &[
            edit(
                ADD_WAITER_LUA,
                "  if type(redis.pcall('PEXPIRE', queue, QUEUE_TTL)) == 'table' then\n",
                "  if false then\n",
            ),
            edit(ENQUEUE_LUA, "    redis.call('PEXPIRE', queue, QUEUE_TTL)\n", ""),
        ],
    },
    Mutant {
        name: "queue-is-ordered-by-time",
        wrong: "A newcomer passes the queue when the server's clock has gone back.",
        violates: ORDER,
        edits: &[edit(
            ADD_WAITER_LUA,
            "if waiters == 0 or redis.call('ZRANK', queue, me) == waiters then return end",
            "do return end",
        )],
    },
    Mutant {
        name: "next-connection-does-not-end-the-last",
        wrong: "When an inbox moves, late requests over the replaced connection arrive behind those of the next one.",
        violates: NO_ORPHAN,
        edits: &[edit(
            LINK,
            "(Node::Redis(node), Node::Redis(before)) => Node::Redis(Box::new(node.after(before))),",
            "(node @ Node::Redis(_), Node::Redis(_)) => node,",
        )],
    },
    Mutant {
        name: "lock-all-does-not-see-a-loss",
        wrong: "A call for several keys returns although it has lost the first while it waited for the next.",
        violates: TRUE_OUTCOME,
        edits: &[
            edit(
                LOCK_ALL,
                "self.taken.iter().find_map(|taken| taken.guard.lost_lease()).cloned()",
                "self.taken.iter().find_map(|taken| taken.guard.lost_lease()).cloned().and(None)",
            ),
            edit(
                LOCK_ALL,
                "if let Poll::Ready(lease) = lease_end.as_mut().poll(cx) {",
                "if let Poll::Ready(lease) = lease_end.as_mut().poll(cx)\n                && false\n            {",
            ),
        ],
    },
    Mutant {
        name: "lock-all-starts-over-with-min-hold",
        wrong: "A call for several keys that starts over keeps those that it had for their `min_hold`.",
        violates: PROMPT,
        edits: &[edit(LOCK_ALL, "            taken.guard.abandon();\n", "            evict(taken.guard);\n")],
    },
    Mutant {
        name: "repeated-release-in-a-cluster-says-lost",
        wrong: "A release that a node has done, but not answered, is repeated, and its caller hears that the lock was lost.",
        violates: TRUE_OUTCOME,
        edits: &[
            edit(
                REDIRECT,
                "(Action::Release, Reply::NotHeld) if was_unanswered",
                "(Action::Release, Reply::NotHeld) if false",
            ),
            edit(REDIRECT, " | (Action::Release | Action::ExpireLater, Reply::NotHeld)\n", "\n"),
        ],
    },
    Mutant {
        name: "renewal-forgets-max-hold",
        wrong: "A renewal moves the end of a lease beyond its `max_hold`.",
        violates: MAX_HOLD,
        edits: &[edit(
            LEASE,
            "-> bool {\n        let deadline = self.hold_until.into_iter().fold(deadline, Ord::min);\n",
            "-> bool {\n",
        )],
    },
];
