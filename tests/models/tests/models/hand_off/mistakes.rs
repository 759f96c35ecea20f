//! Each mistake is found.

use super::rules::Accident::{Crash, Cut, DeleteLock, ForceRelease, Freeze, RestartOlder, Stranger};
use super::rules::{Bounds, Mistake};
use super::{
    ALL_SERVED, EXCLUSIVE, FENCED, FIRST_COME, HandOff, IN_ORDER, NO_PLACE, NOT_ITS_OWN, NOTHING_LEFT,
    ONE_CLAIM, SERVED, STRANGERS, TO_A_LISTENER, WITH_CAUSE,
};
use crate::finds;

const PROMPT: Bounds = Bounds::PROMPT;
const ANY_DELAY: Bounds = Bounds::ANY_DELAY;
const QUEUED: Bounds = Bounds { renews: false, ..Bounds::QUEUED };

/// Two clients, and time that passes only when all that is due was done.
const TWO: Bounds = Bounds { clients: 2, ..PROMPT };
const CRASH: Bounds = Bounds { accidents: 1, kinds: &[Crash], ..PROMPT };
const TWO_CRASH: Bounds = Bounds { clients: 2, ..CRASH };
const TWO_CUT: Bounds = Bounds { kinds: &[Cut], ..TWO_CRASH };
const STRANGER: Bounds = Bounds { kinds: &[Stranger], may_sleep: 1, ..TWO_CRASH };

fn find(mistakes: &[(Mistake, &'static str, Bounds)]) {
    for (mistake, property, bounds) in mistakes {
        let bounds = Bounds { mistake: Some(*mistake), ..*bounds };
        finds(&format!("hand-off, {mistake:?}"), property, HandOff(bounds));
    }
}

/// R1 to R4, R7, R8 and R9.
#[test]
fn each_mistake_of_a_client_is_found() {
    use Mistake as M;
    let delay_cut = Bounds { accidents: 1, kinds: &[Cut], ..ANY_DELAY };
    let two_faults = Bounds { accidents: 2, kinds: &[Crash, Freeze], ..PROMPT };
    let forced = Bounds { kinds: &[ForceRelease], cancels: false, ..CRASH };
    let deleted = Bounds { kinds: &[DeleteLock], polls: true, may_sleep: 1, ..TWO_CRASH };
    find(&[
        (M::WaiterSets, SERVED, TWO_CRASH),
        (M::CountsFromLatestSet, EXCLUSIVE, delay_cut),
        (M::CountsGrantFromReceipt, EXCLUSIVE, Bounds { clients: 3, renews: false, ..ANY_DELAY }),
        (M::CountsBusyFromReceipt, SERVED, Bounds { clients: 2, ..two_faults }),
        (M::CountsNextFromReceipt, SERVED, Bounds { cancels: false, renews: false, ..two_faults }),
        (M::CancelOnlyDeletes, NOTHING_LEFT, TWO),
        (M::LossSendsNoRelease, NOTHING_LEFT, forced),
        (M::DoesNotPoll, SERVED, deleted),
        (M::TrustsStrangers, SERVED, STRANGER),
        (M::CountsFenceLater, FENCED, ANY_DELAY),
        (M::WaitsForLostAnswer, ALL_SERVED, delay_cut),
        (M::Overtakes, NOTHING_LEFT, ANY_DELAY),
    ]);
}

/// R2, R5, R7 and R10.
#[test]
fn each_mistake_with_the_mark_is_found() {
    use Mistake as M;
    let left_free = Bounds { accidents: 1, kinds: &[Crash], leaves_free: true, cancels: false, ..QUEUED };
    find(&[
        (M::JoinDoesNotCompare, NOT_ITS_OWN, TWO_CUT),
        (M::JoinDoesNotMark, SERVED, TWO),
        (M::AgainDoesNotMark, SERVED, Bounds { kinds: &[RestartOlder], ..TWO_CRASH }),
        (M::AgainRemovesMark, SERVED, Bounds { kinds: &[Cut], ..CRASH }),
        (M::GrantForgetsMark, SERVED, PROMPT),
        (M::OwnGrantForgetsMark, SERVED, left_free),
        (M::RenewalRemovesMark, SERVED, TWO),
        (M::RenewalComparesMark, NOTHING_LEFT, TWO),
        (M::DeletesMarked, SERVED, TWO),
        (M::MarksStranger, STRANGERS, STRANGER),
        (M::NoGrace, FIRST_COME, PROMPT),
        (M::MarkAddsNoGrace, EXCLUSIVE, TWO),
        (M::RenewalAddsNoGrace, EXCLUSIVE, TWO),
    ]);
}

/// R6.
#[test]
fn each_waiter_that_is_not_told_is_found() {
    use Mistake as M;
    let crash = Bounds { accidents: 1, kinds: &[Crash], min_hold: true, ..QUEUED };
    find(&[
        (M::GrantTellsNoWaiter, SERVED, CRASH),
        (M::LeavingTellsNoWaiter, SERVED, crash),
        (M::LeavingSecondTellsNoWaiter, SERVED, crash),
        (M::MinHoldTellsNoWaiter, SERVED, Bounds { min_hold: true, ..TWO }),
        (M::TellsOneWaiter, SERVED, Bounds { leaves_free: true, ..CRASH }),
    ]);
}

/// R11.
#[test]
fn each_mistake_with_the_claim_is_found() {
    use Mistake as M;
    let freeze = Bounds { accidents: 1, kinds: &[Freeze], cancels: false, of_one: &[1, 3], ..QUEUED };
    find(&[
        (M::ClaimIsNotNoted, ONE_CLAIM, freeze),
        (M::MinHoldKeepsClaim, WITH_CAUSE, Bounds { accidents: 0, min_hold: true, ..freeze }),
    ]);
}

/// What was a mistake before there was a mark.
#[test]
fn each_mistake_with_the_queue_is_found() {
    use Mistake as M;
    let two_faults = Bounds { accidents: 2, kinds: &[Cut, Crash], cancels: false, renews: false, ..PROMPT };
    find(&[
        (M::AgainShortens, SERVED, two_faults),
        (M::KeepsPlace, NOTHING_LEFT, PROMPT),
        (M::ReleasesAnyLock, EXCLUSIVE, PROMPT),
        (M::Barges, IN_ORDER, PROMPT),
        (M::LeavesFree, SERVED, TWO_CRASH),
        (M::GrantsToTheGone, TO_A_LISTENER, TWO_CUT),
        (M::JoinsAgain, NO_PLACE, PROMPT),
    ]);
}

#[test]
#[ignore = "it takes a minute"]
fn mistakes_that_need_wide_bounds_are_found() {
    let left_free = Bounds { accidents: 1, kinds: &[Crash], leaves_free: true, ..QUEUED };
    find(&[(Mistake::OwnGrantTellsNoWaiter, SERVED, left_free)]);
}
