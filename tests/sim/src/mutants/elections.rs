//! Defects of elections.

use super::files::{ANNOUNCING, HOLDING, LEAD, TERM};
use super::{
    ACTS_IN_TERM, BLOCKED_IS_REPLACED, KNOWN_LEADER, LEFT_BEHIND, Mutant, NO_ORPHAN, TOLD_OF_ITS_END, edit,
};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "body-of-a-leader-runs-on-after-its-lease",
        wrong: "A body is polled when the lead is lost.",
        violates: ACTS_IN_TERM,
        edits: &[edit(
            LEAD,
            "until_lost(&self.guard, OnLost::Cancel, body)",
            "until_lost(&self.guard, OnLost::Finish, body)",
        )],
    },
    Mutant {
        name: "leader-that-resigns-keeps-its-lock",
        wrong: "A leader steps down, and its lock is renewed for ever.",
        violates: NO_ORPHAN,
        edits: &[edit(
            LEAD,
            "let _ = lead.step_down(TermEnd::Resigned, None).await;",
            "std::mem::forget(lead);",
        )],
    },
    Mutant {
        name: "body-of-a-leader-runs-on-after-shutdown",
        wrong: "A body is polled when its manager shuts down.",
        violates: ACTS_IN_TERM,
        edits: &[
            edit(
                LEAD,
                "if to_end.as_mut().poll(cx).is_ready() {",
                "if !election.locks.is_closing() && to_end.as_mut().poll(cx).is_ready() {",
            ),
            edit(
                LEAD,
                "_ if self.term.is_over() =>",
                "_ if self.term.is_over() && !election.locks.is_closing() =>",
            ),
        ],
    },
    Mutant {
        name: "task-of-a-term-is-never-told",
        wrong: "`Term::ended` does not complete.",
        violates: TOLD_OF_ITS_END,
        edits: &[edit(
            TERM,
            "first(pin!(first(over, lost)), pin!(beats)).await;",
            "first(pin!(first(over, lost)), pin!(beats)).await;\n            std::future::pending::<()>().await;",
        )],
    },
    Mutant {
        name: "leader-that-blocks-is-renewed",
        wrong: "The lock of a body that does not run is renewed for ever.",
        violates: BLOCKED_IS_REPLACED,
        edits: &[edit(
            HOLDING,
            "} else if held.is_led_by_a_blocked_body(cx.now) {",
            "} else if held.is_led_by_a_blocked_body(cx.now) && cx.abilities.votes {",
        )],
    },
    Mutant {
        name: "record-of-a-leader-is-not-written-again",
        wrong: "The record ends while its leader has the lock.",
        violates: KNOWN_LEADER,
        edits: &[edit(ANNOUNCING, "    ttl / 2\n", "    ttl * 9\n")],
    },
    Mutant {
        name: "record-of-a-leader-outlives-it",
        wrong: "The record of a leader that was killed lasts for two hours.",
        violates: LEFT_BEHIND,
        edits: &[edit(
            ANNOUNCING,
            "ttl.saturating_add(ttl / 3 * 2)",
            "ttl.saturating_add(Duration::from_secs(7_200))",
        )],
    },
];
