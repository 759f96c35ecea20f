//! A number of permits that an operator has set, script by script.

use crate::by_hand::{Answer, CLOCK, Caller, HOLDERS, LOCK, PERMITS, Scripts};

const TTL: u64 = 20_000;

/// Three processes that listen.
fn start() -> Scripts {
    let mut scripts = Scripts::start();
    for inbox in ["a", "b", "operator"] {
        scripts.listen(inbox);
    }
    scripts
}

fn takes(scripts: &mut Scripts, number: u32, weight: u32, inbox: &str) -> Caller {
    Caller { weight, ..scripts.caller(number, TTL, inbox) }
}

/// The short way and the long one, with weights and without, and below and above the callers' own numbers.
#[test]
pub(crate) fn a_number_that_is_set_counts_for_each_way_in() {
    let mut scripts = start();
    // `join_again` goes the long way.
    for how in ["0", "join", "join_again"] {
        for (number, weight) in [(2, 1), (9, 1), (4, 2), (9, 2)] {
            scripts.forget_all();
            assert_eq!(scripts.set_permits(6, "operator"), 0);
            let callers = [0; 9].map(|_| takes(&mut scripts, number, weight, "a"));
            let mut enters = |caller: &Caller| scripts.ask(caller, how).is_inside();
            let entered = callers.iter().filter(|caller| enters(caller)).count() as u32;
            assert_eq!(entered * weight, 6, "{how}: {weight} of {number}");
            assert_eq!(scripts.run::<i64>(&["PTTL", PERMITS]), -1, "it has no expiry");
        }
    }
}

#[test]
pub(crate) fn a_number_that_is_raised_lets_waiters_in() {
    let mut scripts = start();
    scripts.set_permits(1, "operator");
    let holder = scripts.caller(9, TTL, "a");
    assert!(scripts.ask(&holder, "join").is_inside());
    let waiters = [0; 4].map(|_| scripts.caller(9, TTL, "b"));
    for waiter in &waiters {
        assert!(!scripts.ask(waiter, "join").is_inside());
    }
    scripts.pushes("b");
    assert_eq!(scripts.set_permits(3, "operator"), 1);
    let granted: Vec<_> = scripts.pushes("b").into_iter().filter(|(kind, ..)| kind == "granted").collect();
    let tokens = [&waiters[0], &waiters[1]].map(|waiter| waiter.token.clone());
    assert_eq!(granted.into_iter().map(|(_, token, _)| token).collect::<Vec<_>>(), tokens);
    assert_eq!(scripts.state().inside.len(), 3);
    // Lowered, nobody is out and nobody enters.
    assert_eq!(scripts.set_permits(1, "operator"), 3);
    assert!(scripts.leave(&holder));
    assert_eq!((scripts.state().inside.len(), scripts.state().waiting.len()), (2, 2));
    // Without it, the numbers of the callers count.
    assert_eq!(scripts.set_permits(0, "operator"), 1);
    assert_eq!((scripts.state().inside.len(), scripts.state().waiting.len()), (4, 0));
    assert_eq!(scripts.set_permits(0, "operator"), 0);
}

/// Its lease ends first, and that is when the first waiter enters.
#[test]
pub(crate) fn those_that_wait_on_are_told_when_there_is_room() {
    let mut scripts = start();
    scripts.set_permits(2, "operator");
    let soon = scripts.caller(9, 2_000, "a");
    let late = scripts.caller(9, TTL, "a");
    assert!(scripts.ask(&soon, "join").is_inside() && scripts.ask(&late, "join").is_inside());
    let waiter = scripts.caller(9, TTL, "b");
    assert!(!scripts.ask(&waiter, "join").is_inside());
    scripts.pushes("b");
    // Both have to leave now.
    scripts.set_permits(1, "operator");
    let pushes = scripts.pushes("b");
    let [(kind, token, left)] = &pushes[..] else { panic!("{pushes:?}") };
    assert!(kind == "next" && *token == waiter.token && *left > 10_000, "{pushes:?}");
    scripts.set_permits(2, "operator");
    assert!(scripts.pushes("b").iter().all(|(kind, _, left)| kind == "next" && *left <= 2_001));
}

#[test]
pub(crate) fn one_that_takes_too_many_is_refused_each_way() {
    let mut scripts = start();
    for (how, others) in [("0", 0), ("join", 0), ("join_again", 0), ("0", 1), ("join", 1), ("again", 1)] {
        scripts.forget_all();
        // The short way draws no fencing token below this one.
        scripts.run::<()>(&["SET", CLOCK, "1700000000000000"]);
        scripts.set_permits(4, "operator");
        for _ in 0..others {
            let other = scripts.caller(9, TTL, "a");
            assert!(scripts.ask(&other, "join").is_inside());
        }
        let heavy = takes(&mut scripts, 9, 5, "b");
        assert_eq!(scripts.ask(&heavy, how), Answer::TooHeavy { takes: 5, central: 4 }, "{how}");
        let state = scripts.state();
        assert!(state.inside.len() == others && state.waiting.is_empty(), "{state:?}");
        let most = takes(&mut scripts, 9, 4 - others as u32, "b");
        assert!(scripts.ask(&most, "join").is_inside());
        // One that is inside stays so, whatever it asks.
        scripts.set_permits(2, "operator");
        assert!(scripts.ask(&most, "again").is_inside());
    }
}

#[test]
pub(crate) fn a_waiter_that_takes_too_many_leaves_with_a_push() {
    let mut scripts = start();
    let holder = takes(&mut scripts, 9, 5, "a");
    assert!(scripts.ask(&holder, "join").is_inside());
    let heavy = takes(&mut scripts, 9, 8, "b");
    let light = scripts.caller(9, TTL, "a");
    assert!(!scripts.ask(&heavy, "join").is_inside());
    assert!(!scripts.ask(&light, "join").is_inside());
    scripts.pushes("b");
    scripts.set_permits(6, "operator");
    assert!(scripts.pushes("b").contains(&("gone".to_owned(), String::new(), 0)));
    let state = scripts.state();
    assert!(state.waiting.is_empty() && state.inside.contains_key(&light.token), "{state:?}");
    assert_eq!(scripts.ask(&heavy, "rejoin"), Answer::TooHeavy { takes: 8, central: 6 });
}

#[test]
pub(crate) fn one_permit_of_a_reader_is_never_too_many() {
    let mut scripts = start();
    scripts.set_permits(1, "operator");
    let writer = scripts.caller(1, TTL, "a");
    assert!(scripts.ask(&writer, "join").is_inside());
    let readers = [0; 3].map(|_| scripts.caller(0, TTL, "b"));
    for reader in &readers {
        assert!(!scripts.ask(reader, "join").is_inside());
    }
    assert!(scripts.leave(&writer));
    let state = scripts.state();
    assert!(readers.iter().all(|reader| state.inside.contains_key(&reader.token)), "{state:?}");
}

/// An older version of these scripts names no key of it, and does as before: it goes by the numbers of the callers, in both
/// directions, and the newer ones go on beside it.
#[test]
fn scripts_that_do_not_know_it_go_by_the_numbers_of_the_callers() {
    let mut scripts = start();
    scripts.set_permits(1, "operator");
    let (first, second) = (scripts.caller(2, TTL, "a"), scripts.caller(2, TTL, "b"));
    assert!(scripts.ask(&first, "join").is_inside() && !scripts.ask(&second, "join").is_inside());
    // As the older release: the same script without the sixth key.
    let leaves = [&*first.token, "20000", "0", "a", "0", "", "n2"];
    let keys = [LOCK, "lock:k%queue", "lock:%clock", "lock:k%queue%claim", HOLDERS];
    scripts.call_with("release_counted", &keys, &leaves);
    let state = scripts.state();
    assert!(state.inside.contains_key(&second.token) && state.central == 1, "{state:?}");
}
