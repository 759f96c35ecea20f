//! Defects of ticks.

use super::files::{INCLUDED_END_TICK_LUA, KIND, TICK_LUA};
use super::{Mutant, ONE_RUN, edit};

pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "tick-looks-at-no-record",
        wrong: "Each caller that gets the lock runs its tick.",
        violates: ONE_RUN,
        edits: &[edit(
            TICK_LUA,
            "local is_over = its_token and its_token ~= '' and not is_own",
            "local is_over = false",
        )],
    },
    Mutant {
        name: "skipped-tick-is-not-recorded",
        wrong: "The tick of a runner that was killed is run by another one.",
        violates: ONE_RUN,
        edits: &[edit(
            TICK_LUA,
            "if ARGV[13] == 'record' and type(answer) == 'number' then",
            "if false then",
        )],
    },
    Mutant {
        name: "retried-tick-is-over-with-its-grant",
        wrong: "A tick whose runner has failed is over, although it is to be tried again.",
        violates: ONE_RUN,
        edits: &[edit(TICK_LUA, "if ARGV[13] == 'record' and", "if")],
    },
    Mutant {
        name: "granted-waiter-runs-a-tick-that-is-over",
        wrong: "A waiter that is pushed the lock begins its body without a look at the record.",
        violates: ONE_RUN,
        edits: &[edit(KIND, "!lacks_fence && !self.is_run()", "!lacks_fence && self.once().is_none()")],
    },
    Mutant {
        name: "dropped-guard-ends-its-tick",
        wrong: "A tick is over although its guard was dropped.",
        violates: ONE_RUN,
        edits: &[edit(KIND, "&& early && lease.has_ended_well()", "&& early")],
    },
    Mutant {
        name: "record-of-a-tick-lasts-for-a-day",
        wrong: "A clock that leaps ahead by two days, and back, makes a tick run again.",
        violates: ONE_RUN,
        edits: &[
            edit(TICK_LUA, "tick + keeps - now))", "tick + 86400000 - now))"),
            edit(INCLUDED_END_TICK_LUA, "tick + keeps - now", "tick + 86400000 - now"),
        ],
    },
    Mutant {
        name: "any-release-opens-the-tick",
        wrong: "A caller that leaves opens the tick that another one has run.",
        violates: ONE_RUN,
        edits: &[edit(INCLUDED_END_TICK_LUA, "if its_token == token then", "if its_token then")],
    },
];
