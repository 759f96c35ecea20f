//! Mutants: defects that the lock has had, or could have, each put back into today's sources by the
//! smallest edits.
//!
//! The simulation should find each of them within a minute: `cargo run --release -p redlocked-sim
//! --example mutants` tells which it finds. Not these:
//!
//! | not found | why |
//! | --- | --- |
//! | `busy-counts-from-its-receipt`, `next-counts-from-its-receipt` | the waiter asks later by as long as a message takes, and a lock may be free for that long anyway |
//! | `free-lock-with-a-queue-is-left` | the newcomer gets a lease that is over, and asks again at once |
//! | `loss-sends-no-release` | found in some minutes only: an operator has to take the lock away between a grant and a request of its waiter, and the place that stays has the lock for a round trip in its turn |
//! | `next-connection-does-not-end-the-last` | plans have no Cluster that moves the slot of an inbox while requests are late |
//! | `each-waiter-is-a-follower` | the first waiter of the process is nearly always the next that the grant has named |
//! | `plain-number-is-below-the-floor` | it counts for 5 ms after a grant that carried the floor, and a simulated server refuses for 50 ms while it takes older data over; `a_fencing_token_is_drawn_without_a_script_between_two_comparisons_with_the_floor` finds it |
//! | `followers-of-a-lost-lock-keep-their-places` | each place that stays has the lock for a round trip in its turn, which is allowed where a lock is lost; `with_a_lock_that_is_lost_its_served_followers_leave_the_queue` finds it |
//! | `followers-inherit-no-deadline` | a follower renews at once: its connection has to break within the 10 ms in which a lock is passed on |
//!
//! These cannot be put back, because their mechanism is gone:
//!
//! | defect | why |
//! | --- | --- |
//! | a lock and its fencing token are two requests | one script does both; a token that is drawn later has its own action |
//! | a lock is kept between two calls, and its recall is lost | no lock is kept without a holder |
//! | a waiter that cancels sends a plain delete only | one that finds a mark is followed by the script: `mark.rs` breaks that |
//! | a release overtakes its acquire when its task has used up its budget | batches share one buffer of bytes |
//! | each event of a Cluster looks at all slots | it costs processor time, which is not part of virtual time |

mod chaos;
mod defects;
mod elections;
mod files;
mod followers;
mod mark;
mod once;
mod scripts;
mod shares;
mod stuck;
mod survivors;
mod tickets;
mod ticks;

#[cfg(test)]
mod tests;

/// One defect.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// For the command line.
    pub name: &'static str,
    /// What is wrong.
    pub wrong: &'static str,
    /// The property that the simulation should find violated.
    pub violates: &'static str,
    /// In several places, or in several files.
    pub edits: &'static [Edit],
}

/// A text that stands once in a file, and its replacement.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// Below the root of the repository.
    pub file: &'static str,
    /// The text today.
    pub from: &'static str,
    /// The text of the mutant.
    pub to: &'static str,
}

/// All mutants.
pub fn all() -> impl Iterator<Item = &'static Mutant> {
    [
        defects::ALL,
        survivors::ALL,
        mark::ALL,
        chaos::ALL,
        followers::ALL,
        stuck::ALL,
        tickets::ALL,
        ticks::ALL,
        once::ALL,
        elections::ALL,
        shares::ALL,
    ]
    .into_iter()
    .flatten()
}

/// Those that the chaos suite finds on real servers within a minute, too, and the tests of
/// `tests/chaos` that do: `cargo run --release -p redlocked-sim --example mutants -- --chaos`.
pub const FOUND_BY_CHAOS: &[(&str, &str)] = &[
    (
        "reply-that-nothing-asked-for-is-an-answer",
        "clients::a_reply_that_nothing_has_asked_for_grants_nothing",
    ),
    ("reply-that-nothing-asked-for-is-an-answer", "quorum::a_reply_that_nothing_has_asked_for_is_no_vote"),
    (
        "reply-that-nothing-asked-for-is-an-answer",
        "cluster::a_reply_that_nothing_has_asked_for_grants_nothing_in_a_cluster",
    ),
    ("claim-is-not-noted", "clients::a_stuck_process_costs_others_a_claim"),
    ("full-server-keeps-a-lock", "clients::a_full_server_takes_locks_back"),
    ("waiters-behind-dead-ones-sleep", "clients::waiters_behind_dead_ones_have_a_deleted_lock_at_once"),
    ("refused-call-owes-a-release", "clients::a_manager_whose_calls_were_refused_owes_nothing"),
    ("refused-call-owes-a-release", "cluster::a_manager_whose_calls_were_refused_owes_nothing_in_a_cluster"),
    (
        "command-from-the-runtime-of-the-loop-is-not-looked-after",
        "clients::a_caller_that_blocks_its_runtime_has_given_its_lock_back",
    ),
];

const fn edit(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit { file, from, to }
}

const EXCLUSION: &str = "at most one caller is inside";
const FENCES: &str = "fencing tokens grow";
const NO_ORPHAN: &str = "no key without an owner for longer than its lease";
const PROMPT: &str = "no waiter sleeps beside a free lock";
const ORDER: &str = "first come, first served";
const ONE_CLAIM: &str = "a stopped process costs one claim";
const RATE: &str = "no more begin in a `min_hold` than there are permits";
const IN_TIME: &str = "each caller is back within its limit";
const FEW_COMMANDS: &str = "the commands for an acquisition are within their bound";
const NOTHING_OWED: &str = "calls that were refused owe nothing";
const FREE_BEHIND_EXIT: &str = "the locks of a process that ends behind a call are free";
const NOTHING_LEFT: &str = "nothing is left when all callers have gone";
const GRANTED_ONCE: &str = "a caller that has had the lock is granted it no more";
const CAUSE: &str = "a lock is lost only for a cause";
const AS_LONG: &str = "a lease lasts as long as its guard says";
const TRUE_OUTCOME: &str = "an outcome says what was";
const STRANGERS: &str = "the value of a client of another kind stays as it is";
const FORKED: &str = "a forked child has no lock";
const ONCE: &str = "a ticket is redeemed once";
const ONE_RUN: &str = "a tick is run once";
const ONE_BODY: &str = "a body runs once";
const ONE_RESULT: &str = "all callers of a body have one result";
const STORED: &str = "a result is stored";
const READ: &str = "nobody waits beside a result";
const STAYS_INTERRUPTED: &str = "an interrupted body waits for an operator";
const BY_ACCIDENT: &str = "a body is interrupted by an accident";
const ACTS_IN_TERM: &str = "a leader acts only in its term";
const BLOCKED_IS_REPLACED: &str = "a leader that blocks is replaced";
const TOLD_OF_ITS_END: &str = "a task is told of the end of its term";
const KNOWN_LEADER: &str = "the server knows its leader";
const LEFT_BEHIND: &str = "nothing is left after shutdown";
const MAX_HOLD: &str = "no caller is inside for longer than `max_hold`";
