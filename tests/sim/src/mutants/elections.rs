//! Defects of elections.

use super::files::LEAD;
use super::{ACTS_IN_TERM, Mutant, NO_ORPHAN, edit};

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
            "let released = lead.step_down(end, None);",
            "let released = std::future::ready(std::mem::forget(lead));",
        )],
    },
];
