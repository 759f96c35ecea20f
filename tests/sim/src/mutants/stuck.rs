//! Defects of processes that are stuck and servers that are full: `plan/stuck.rs` draws what shows
//! them.

use super::files::{
    FIELDS, HANDLE, HELD, HOLDING, INCLUDED_RELEASE_LUA, ON_REPLY, PASS_ON_LUA, RELEASE_LUA, RUNNER, STANDING,
};
use super::{FEW_COMMANDS, FREE_BEHIND_EXIT, Mutant, NO_ORPHAN, NOTHING_LEFT, NOTHING_OWED, PROMPT, edit};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "full-server-keeps-a-lock",
        wrong: "The short way of a release draws a fencing token before it frees anything, which a full server refuses.",
        violates: NO_ORPHAN,
        edits: &[edit(
            RELEASE_LUA,
            "is_fenced and redis.pcall('INCR', clock)",
            "is_fenced and redis.call('INCR', clock)",
        )],
    },
    Mutant {
        name: "waiters-behind-dead-ones-sleep",
        wrong: "Only the head of a queue hears that the lock was deleted, and it is dead: the first that lives asks at its next poll.",
        violates: PROMPT,
        edits: &[
            edit(
                STANDING,
                "place.is_none() || (leads || has_waited) && is_foreign",
                "place.is_none() || (leads || has_waited && false) && is_foreign",
            ),
            edit(
                STANDING,
                "if self.reports_end { ASK_AGAIN_AT_LAST } else { ASK_AGAIN_UNWATCHED }",
                "ASK_AGAIN_AT_LAST.max(ASK_AGAIN_UNWATCHED)",
            ),
            edit(HOLDING, "cx.abilities.votes || cx.abilities.hands_over;", "cx.abilities.votes;"),
            edit(
                INCLUDED_RELEASE_LUA,
                "if not evict_stalled() or grant_next() == false then",
                "if false then",
            ),
        ],
    },
    Mutant {
        name: "command-from-the-runtime-of-the-loop-is-not-looked-after",
        wrong: "A caller in the runtime of the loop gives a lock back and blocks its thread: nobody moves the loop.",
        violates: PROMPT,
        edits: &[edit(
            RUNNER,
            "if !self.is_watched.load(Ordering::SeqCst) && !",
            "if false && !self.is_watched.load(Ordering::SeqCst) && !",
        )],
    },
    Mutant {
        name: "release-is-left-to-the-loop",
        wrong: "A call that does not wait for its release returns before that is written, and its process ends.",
        violates: FREE_BEHIND_EXIT,
        edits: &[edit(
            HANDLE,
            "if self.outlives_process && self.is_here() {",
            "if false && self.outlives_process && self.is_here() {",
        )],
    },
    Mutant {
        name: "release-is-left-to-the-thread-of-the-loop",
        wrong: "The same, where the loop has a thread of its own.",
        violates: FREE_BEHIND_EXIT,
        edits: &[edit(
            HANDLE,
            "self.resident.iter().for_each(|resident| resident.flush());",
            "self.resident.iter().filter(|_| false).for_each(|resident| resident.flush());",
        )],
    },
    Mutant {
        name: "last-release-is-direct",
        wrong: "A plain command of a process that ends finds a waiter of which the process has not heard: nobody sends the script.",
        violates: FREE_BEHIND_EXIT,
        edits: &[edit(
            HELD,
            "if !self.queue.needs_script() && request.release == Releases::Usual {",
            "if !self.queue.needs_script() {",
        )],
    },
    Mutant {
        name: "last-release-does-not-name-the-holders",
        wrong: "The script of a process that ends finds a first waiter that is counted, and asks for the holders: nobody calls it again.",
        violates: FREE_BEHIND_EXIT,
        edits: &[edit(
            FIELDS,
            "Action::Release if request.release != Releases::Usual => true,",
            "Action::Release if request.release == Releases::AmongSeveral => true,",
        )],
    },
    Mutant {
        name: "refused-call-owes-a-release",
        wrong: "A call that the server has only refused counts as one that may have the lock: its release is sent and refused for the ttl.",
        violates: NOTHING_OWED,
        edits: &[edit(
            ON_REPLY,
            "refusal)) {\n            waiting.requests.undo();",
            "refusal)) {\n            if false { waiting.requests.undo(); }",
        )],
    },
    Mutant {
        name: "passing-on-leaves-the-places",
        wrong: "The server is told who has a lock that was passed on, and those that have had it keep their places in the queue.",
        violates: NOTHING_LEFT,
        edits: &[edit(
            PASS_ON_LUA,
            "if has_places then redis.call('ZREM', queue, unpack(places)) end",
            "if has_places then redis.call('EXISTS', queue) end",
        )],
    },
    Mutant {
        name: "own-renewal-counts-as-a-change",
        wrong: "Where the server tells a client of its own renewals, each one is repaired by the next one, ten times in a second.",
        violates: FEW_COMMANDS,
        edits: &[edit(
            HELD,
            "is_some_and(|ends| ends > now.after(left))",
            "is_some_and(|_| left > Duration::ZERO)",
        )],
    },
];
