//! Which clients, and what happens to them.

use super::{
    Accident, Bounds, Counted, EXCLUSIVE, FENCED, IN_ORDER, KEY_LASTS, Mistake as M, ONE_CLAIM, PROMPT,
    Server,
};
use crate::{finds, holds};

/// The limits of one that must be alone, and of a reader.
const W: u8 = 1;
const R: u8 = 0;

/// Each waits until it is told, and nothing goes wrong.
fn calm(limits: &[u8]) -> Bounds {
    Bounds {
        limits: limits.to_vec(),
        accidents: 0,
        kinds: Vec::new(),
        prompt: true,
        poll: 0,
        renews: false,
        cancels: false,
        idle: 0,
    }
}

fn one_of(limits: &[u8], kinds: &[Accident]) -> Bounds {
    Bounds { accidents: 1, kinds: kinds.to_vec(), idle: 1, ..calm(limits) }
}

fn run(name: &str, bounds: Bounds) {
    holds(&format!("counted, {name}"), Counted { bounds, server: Server(None) });
}

/// A mix of kinds, for three clients.
const MIXES: [&[u8]; 5] = [&[R, R, W], &[R, W, W], &[2, 2, 2], &[2, 2, W], &[2, R, R]];

#[test]
fn three_clients_of_all_kinds() {
    for mix in MIXES {
        run(&format!("{mix:?}, no accident"), Bounds { renews: true, cancels: true, ..calm(mix) });
    }
}

#[test]
fn three_clients_and_an_accident() {
    use Accident::{Crash, Cut, Freeze, LostPush};
    for mix in MIXES {
        run(&format!("{mix:?}, a crash"), Bounds { cancels: true, ..one_of(mix, &[Crash]) });
        run(
            &format!("{mix:?}, a crash, renewals"),
            Bounds { renews: true, poll: 1, ..one_of(mix, &[Crash]) },
        );
        run(&format!("{mix:?}, frozen or cut"), Bounds { poll: 1, ..one_of(mix, &[Freeze, Cut]) });
        run(&format!("{mix:?}, a lost push"), Bounds { poll: 1, cancels: true, ..one_of(mix, &[LostPush]) });
    }
}

#[test]
fn three_clients_and_any_delay() {
    for mix in MIXES {
        run(&format!("{mix:?}, any delay"), Bounds { prompt: false, ..calm(mix) });
    }
}

#[test]
fn four_clients() {
    use Accident::Crash;
    run("two readers, a writer, a reader", Bounds { cancels: true, ..calm(&[R, R, W, R]) });
    for mix in [[R, R, W, R], [2, 2, 2, 2], [2, R, R, W]] {
        run(&format!("{mix:?}, a crash"), Bounds { poll: 1, ..one_of(&mix, &[Crash]) });
    }
    run("two crashes, and no asks of their own", Bounds { accidents: 2, ..one_of(&[R, W, W, W], &[Crash]) });
}

#[test]
fn strangers_and_deletions() {
    use Accident::{Crash, Cut, Deletion, Freeze, LostPush, Stranger};
    run("a stranger", Bounds { poll: 1, ..one_of(&[R, R, W], &[Stranger]) });
    run("the key is deleted", Bounds { poll: 1, renews: true, ..one_of(&[R, R, W], &[Deletion]) });
    let bounds = one_of(&[R, W], &[Crash, Cut, Freeze, LostPush, Stranger]);
    run(
        "two clients, all accidents, any delay",
        Bounds { prompt: false, renews: true, cancels: true, ..bounds },
    );
}

#[test]
fn each_mistake_is_found() {
    use Accident::{Crash, Freeze};
    let crash = |limits: &[u8]| one_of(limits, &[Crash]);
    let renewing = |bounds: Bounds| Bounds { renews: true, ..bounds };
    let two_crashes = || Bounds { accidents: 2, ..crash(&[R, W, W, W]) };
    for (mistake, property, bounds) in [
        (M::ExpiryStaysCounted, PROMPT, renewing(crash(&[R, R, W]))),
        (M::LimitSticks, PROMPT, calm(&[2, R, R, R])),
        (M::LimitOfCallerOnly, EXCLUSIVE, calm(&[2, R, R, R])),
        (M::KeyEndsWithTheLastToEnter, KEY_LASTS, renewing(crash(&[2, 2, 2]))),
        (M::RenewalLeavesTheKey, KEY_LASTS, renewing(crash(&[R, R, W]))),
        (M::NoGrace, IN_ORDER, crash(&[R, W, W])),
        (M::NewcomerPassesQueue, IN_ORDER, calm(&[R, R, W])),
        (M::DeadHeadStays, PROMPT, crash(&[R, R, W])),
        (M::GrantLastsTtl, ONE_CLAIM, crash(&[R, W, W])),
        (M::AgainLastsTtl, ONE_CLAIM, two_crashes()),
        (M::ReleaseLowersCounter, EXCLUSIVE, Bounds { cancels: true, ..calm(&[R, R, W]) }),
        (M::ReleaseDeletesTheKey, EXCLUSIVE, calm(&[R, R, W])),
        (M::GrantFromReceipt, EXCLUSIVE, renewing(one_of(&[R, R, W], &[Freeze]))),
        (M::PhaseKeepsOldFence, FENCED, calm(&[R, R, W])),
        (M::NoHint, PROMPT, crash(&[R, R, W])),
        (M::TellsOne, PROMPT, two_crashes()),
        (M::LeavingTellsNobody, PROMPT, crash(&[R, R, W])),
    ] {
        finds(&format!("counted, {mistake:?}"), property, Counted { bounds, server: Server(Some(mistake)) });
    }
}

/// Each costs commands, or needs what this model leaves out.
#[test]
fn three_mistakes_survive() {
    for mistake in [M::LetsInOne, M::LeavingLetsNobodyIn, M::AgainShortens] {
        let bounds = Bounds { cancels: true, ..calm(&[R, R, W]) };
        holds(&format!("counted, {mistake:?}"), Counted { bounds, server: Server(Some(mistake)) });
    }
}
