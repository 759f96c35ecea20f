//! Defects of processes that are stuck and servers that are full: `plan/stuck.rs` draws what shows them.

use super::files::{HAND_OVER_LUA, HOME};
use super::{Mutant, NO_ORPHAN, PROMPT, edit};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "full-server-keeps-a-lock",
        wrong: "The short way of a release draws a fencing token before it frees anything, which a full server refuses.",
        violates: NO_ORPHAN,
        edits: &[edit(
            HAND_OVER_LUA,
            "is_fenced and redis.pcall('INCR', KEYS[3])",
            "is_fenced and redis.call('INCR', KEYS[3])",
        )],
    },
    Mutant {
        name: "command-from-the-runtime-of-the-loop-is-not-looked-after",
        wrong: "A caller in the runtime of the loop gives a lock back and blocks its thread: nobody moves the loop.",
        violates: PROMPT,
        edits: &[edit(
            HOME,
            "if !self.is_watched.load(Ordering::SeqCst) && !",
            "if false && !self.is_watched.load(Ordering::SeqCst) && !",
        )],
    },
];
