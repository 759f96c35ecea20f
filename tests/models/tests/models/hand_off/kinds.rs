//! Exclusive clients, readers and permits of one lock: each property holds, and each mistake with
//! several holders is found.

use super::rules::Accident::{Crash, Cut, DeleteLock, Flush, ForceRelease, Freeze, LosePush, Stranger};
use super::rules::{Accident, Bounds, Mistake};
use super::{
    A_CLAIM, EXCLUSIVE, FENCED, FIRST_COME, HandOff, IN_ORDER, ONE_CLAIM, OUTLIVES, SERVED, WITH_CAUSE,
};
use crate::{finds, holds};

/// How many may be inside while a client is; any number.
const ANY: u8 = 0;

const READERS_AND_WRITER: Bounds = Bounds { numbers: &[ANY, ANY, 1], ..Bounds::PROMPT };
const PERMITS: Bounds = Bounds { numbers: &[2, 2, 2], ..Bounds::PROMPT };
/// Two of them take two of three permits.
const HEAVY: Bounds = Bounds { numbers: &[3, 3, 3], weights: &[2, 2, 1], ..Bounds::PROMPT };
const MIXED: Bounds = Bounds { numbers: &[2, ANY, ANY], ..Bounds::PROMPT };

/// Behind a writer.
const QUEUED: Bounds = Bounds { numbers: &[1, ANY, ANY, 1], renews: false, cancels: false, ..Bounds::QUEUED };

/// When the head of the queue dies, no script runs: the next one finds it when it asks.
const fn with(kinds: &'static [Accident], bounds: Bounds) -> Bounds {
    Bounds { accidents: 1, kinds, may_sleep: 1, polls: true, ..bounds }
}

fn hold(runs: &[(&str, Bounds)]) {
    for (name, bounds) in runs {
        holds(&format!("kinds, {name}"), HandOff(*bounds));
    }
}

#[test]
fn two_readers_and_a_writer() {
    let short = Bounds { renews: false, ..READERS_AND_WRITER };
    hold(&[
        ("2 readers and a writer", READERS_AND_WRITER),
        ("2 readers and a writer, a crash", with(&[Crash], short)),
        ("2 readers and a writer, a lost push", with(&[LosePush], short)),
        (
            "2 readers and a writer, a freeze or a cut",
            with(&[Cut, Freeze], Bounds { cancels: false, ..short }),
        ),
    ]);
}

#[test]
fn two_permits_for_three() {
    hold(&[
        ("2 permits for 3", PERMITS),
        ("2 permits for 3, a crash", with(&[Crash], Bounds { cancels: false, ..PERMITS })),
        ("2 permits for 3, any delay", Bounds { prompt: false, renews: false, cancels: false, ..PERMITS }),
        ("2 permits and 2 readers", Bounds { renews: false, ..MIXED }),
    ]);
}

/// A heavy one that waits is not passed, and enters when enough permits are free.
#[test]
fn three_permits_of_which_two_callers_take_two() {
    let different = Bounds { numbers: &[4, 3, 3], renews: false, ..HEAVY };
    hold(&[
        ("2 of 3 permits", HEAVY),
        ("2 of 3 permits, a crash", with(&[Crash], Bounds { cancels: false, renews: false, ..HEAVY })),
        ("2 of 3 permits, any delay", Bounds { prompt: false, renews: false, cancels: false, ..HEAVY }),
        ("different numbers and weights", different),
        ("heavy ones behind a writer", Bounds { numbers: &[1, 3, 3, 3], weights: &[1, 2, 2, 1], ..QUEUED }),
    ]);
}

#[test]
fn readers_and_writers_that_wait() {
    hold(&[
        ("a queue and a crash", with(&[Crash], QUEUED)),
        ("a queue and a min_hold", Bounds { min_hold: true, ..QUEUED }),
        ("a queue and a lock left free", Bounds { leaves_free: true, ..QUEUED }),
        ("operators and a stranger", with(&[DeleteLock, Flush, ForceRelease, Stranger], QUEUED)),
    ]);
}

/// They have their claims at one time, and then no place any more.
#[test]
fn a_process_with_several_readers_stands_still() {
    let three = Bounds { of_one: &[1, 2, 3], ..with(&[Freeze], QUEUED) };
    hold(&[
        ("a queue, and a process with 3 freezes", three),
        ("a queue, and a process with a reader and a writer freezes", Bounds { of_one: &[1, 3], ..three }),
        ("a queue, and a process with 3 permits freezes", Bounds { numbers: &[1, 2, 2, 2], ..three }),
        ("a queue, and a process with 3 has a min_hold", Bounds { accidents: 0, min_hold: true, ..three }),
    ]);
}

#[test]
#[ignore = "it takes minutes"]
fn wide_bounds() {
    let writers = Bounds { numbers: &[ANY, 1, 1], ..Bounds::PROMPT };
    let permits_and_writer = Bounds { numbers: &[2, 2, 1], ..Bounds::PROMPT };
    for bounds in [READERS_AND_WRITER, writers, PERMITS, permits_and_writer, MIXED] {
        let short = Bounds { renews: false, ..bounds };
        let stays = Bounds { cancels: false, ..short };
        let name = |what: &str| format!("kinds, {:?}, {what}", bounds.numbers);
        holds(&name("no accident"), HandOff(bounds));
        holds(&name("a crash"), HandOff(with(&[Crash], short)));
        holds(&name("a crash, renewals"), HandOff(with(&[Crash], Bounds { cancels: false, ..bounds })));
        holds(&name("a freeze or a cut"), HandOff(with(&[Cut, Freeze], stays)));
        holds(&name("a lost push"), HandOff(with(&[LosePush], short)));
        holds(&name("operators"), HandOff(with(&[DeleteLock, Flush, ForceRelease, Stranger], stays)));
        holds(&name("any delay"), HandOff(Bounds { prompt: false, ..stays }));
    }
    let four = |numbers| Bounds { numbers, clients: 4, renews: false, ..Bounds::PROMPT };
    hold(&[
        ("3 readers and a writer", four(&[ANY, ANY, 1, ANY])),
        ("3 readers and a writer, a crash", with(&[Crash], four(&[ANY, ANY, 1, ANY]))),
        ("2 permits for 4, a crash", with(&[Crash], four(&[2, 2, 2, 2]))),
        ("all kinds, a crash", with(&[Crash], Bounds { cancels: false, ..four(&[2, ANY, ANY, 1]) })),
        ("a queue", Bounds { renews: true, cancels: true, ..QUEUED }),
    ]);
}

fn find(mistakes: &[(Mistake, &'static str, Bounds)]) {
    for (mistake, property, bounds) in mistakes {
        let bounds = Bounds { mistake: Some(*mistake), ..*bounds };
        finds(&format!("kinds, {mistake:?}"), property, HandOff(bounds));
    }
}

/// R12 and R14.
#[test]
fn each_mistake_with_the_count_is_found() {
    use Mistake as M;
    let crash = with(&[Crash], Bounds { cancels: false, ..READERS_AND_WRITER });
    let writers = with(&[Crash], Bounds { numbers: &[ANY, 1, 1], renews: false, ..Bounds::PROMPT });
    let four = Bounds { clients: 4, numbers: &[2, ANY, ANY, ANY], renews: false, ..Bounds::PROMPT };
    find(&[
        (M::ExpiryStaysCounted, SERVED, crash),
        (M::LimitSticks, SERVED, four),
        (M::OnlyNewcomerCounts, EXCLUSIVE, MIXED),
        (M::HoldersWeighOne, EXCLUSIVE, HEAVY),
        (M::NewcomerWeighsOne, EXCLUSIVE, HEAVY),
        (M::ReleaseLowersCount, EXCLUSIVE, READERS_AND_WRITER),
        (M::ReleaseDeletesKey, EXCLUSIVE, READERS_AND_WRITER),
        (M::PhaseKeepsFence, FENCED, READERS_AND_WRITER),
        (M::KeyEndsWithLatest, OUTLIVES, READERS_AND_WRITER),
        (M::RenewalLeavesKey, OUTLIVES, READERS_AND_WRITER),
        (M::NoGraceForCounted, FIRST_COME, writers),
    ]);
}

/// R3, R6 and R13.
#[test]
fn each_mistake_with_those_that_wait_is_found() {
    use Mistake as M;
    let behind_a_reader = Bounds { numbers: &[ANY, 1, ANY, ANY], ..QUEUED };
    let one_waits = Bounds { queued: true, cancels: false, ..READERS_AND_WRITER };
    let one_waits = Bounds { polls: false, may_sleep: 0, ..with(&[Crash], one_waits) };
    let late = Bounds { clients: 3, numbers: &[1, ANY, 1], kills: false, renews: true, ..QUEUED };
    find(&[
        (M::LetsInOne, SERVED, QUEUED),
        (M::LeavingLetsNobodyIn, SERVED, Bounds { cancels: true, ..behind_a_reader }),
        (M::DeadHeadStays, SERVED, with(&[Crash], behind_a_reader)),
        (M::HolderLeavesSilently, SERVED, one_waits),
        (M::Barges, IN_ORDER, READERS_AND_WRITER),
        (M::CountsGrantFromReceipt, EXCLUSIVE, Bounds { prompt: false, ..QUEUED }),
        (M::CountedAskShortens, EXCLUSIVE, with(&[Cut], late)),
    ]);
}

/// R11.
#[test]
fn each_mistake_with_a_process_that_stands_still_is_found() {
    use Mistake as M;
    let freeze = with(&[Freeze], QUEUED);
    let of_one = Bounds { numbers: &[1, 2, 2, 2], of_one: &[1, 3], ..freeze };
    let five = Bounds { clients: 5, numbers: &[1, 1, ANY], of_one: &[1, 3], ..freeze };
    find(&[
        (M::GrantLastsTtl, A_CLAIM, freeze),
        (M::AgainLastsTtl, A_CLAIM, freeze),
        (M::ClaimIsNotNoted, ONE_CLAIM, of_one),
        (M::MinHoldKeepsClaim, WITH_CAUSE, Bounds { accidents: 0, min_hold: true, ..of_one }),
        (M::CountedKeepsClaim, WITH_CAUSE, five),
    ]);
}
