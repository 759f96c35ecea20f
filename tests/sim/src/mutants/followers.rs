//! Mistakes with followers, to which a process passes a lock on without a request for each.

use super::files::{FOLLOWERS, FOLLOWERS_LUA, HELD, HOLDING, INCLUDED_RELEASE_LUA, RELEASE_LUA};
use super::{EXCLUSION, GRANTED_ONCE, Mutant, NOTHING_LEFT, ORDER, edit};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "followers-are-those-of-any-process",
        wrong: "A grant names the waiters behind it also where one of another process is between them.",
        violates: ORDER,
        edits: &[edit(
            FOLLOWERS_LUA,
            "local function followers_of(rest, first, second)\n",
            "local function followers_of(rest, first, second)\n  rest = '|unfenced'\n",
        )],
    },
    Mutant {
        name: "each-waiter-is-a-follower",
        wrong: "A process passes a lock on to waiters that the grant has not named.",
        violates: ORDER,
        edits: &[edit(FOLLOWERS, "secret == waiter.token.secret()", "!secret.is_empty()")],
    },
    Mutant {
        name: "followers-keep-their-places",
        wrong: "Those that have had the lock are still in the queue when it is released.",
        violates: GRANTED_ONCE,
        edits: &[
            edit(
                INCLUDED_RELEASE_LUA,
                "redis.call('ZREM', queue, me, unpack(followers))\n  if",
                "redis.call('ZREM', queue, me)\n  if",
            ),
            edit(RELEASE_LUA, "    redis.call('ZREM', queue, unpack(places))\n", ""),
        ],
    },
    Mutant {
        name: "followers-of-a-lost-lock-keep-their-places",
        wrong: "Those that have had the lock are still in the queue when it is lost.",
        violates: NOTHING_LEFT,
        edits: &[edit(
            HOLDING,
            "release || held.queue.may_have_place() || held.successors.owes_places()",
            "(release || held.queue.may_have_place()) && !held.successors.owes_places()",
        )],
    },
    Mutant {
        name: "followers-inherit-no-deadline",
        wrong: "The lease of a follower begins anew, although the server has not renewed it.",
        violates: EXCLUSION,
        edits: &[edit(
            HELD,
            "        self.replace_lease(ask.lease(fence, now, deadline));\n        self.retention",
            "        self.replace_lease(ask.lease(fence, now, deadline.max(safe_until(now, ask.ttl))));\n        self.retention",
        )],
    },
];
