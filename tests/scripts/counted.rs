//! One event after the other: what the scripts answer, whom they tell, and what is left.

use std::thread::sleep;
use std::time::Duration;

use crate::by_hand::{Answer, CLAIM, Caller, HOLDERS, LOCK, QUEUE, Scripts, State};

/// In ms.
const LONG: u64 = 10_000;

fn scripts(inboxes: &[&str]) -> Scripts {
    let mut scripts = Scripts::start();
    for inbox in inboxes {
        scripts.listen(inbox);
    }
    scripts
}

impl Scripts {
    /// One that has asked, and is inside.
    #[track_caller]
    pub(crate) fn inside(&mut self, number: u32, ttl: u64, inbox: &str) -> (Caller, u64) {
        let caller = self.caller(number, ttl, inbox);
        match self.ask(&caller, "join") {
            Answer::Inside { fence } => (caller, fence),
            other => panic!("{other:?}"),
        }
    }

    /// One that has asked, and waits: when it may ask again, in ms.
    #[track_caller]
    pub(crate) fn waiting(&mut self, number: u32, ttl: u64, inbox: &str) -> (Caller, i64) {
        let caller = self.caller(number, ttl, inbox);
        match self.ask(&caller, "join") {
            Answer::Busy { left, .. } => (caller, left),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn only_inside(&mut self, callers: &[&Caller]) -> State {
        let state = self.state();
        let mut inside: Vec<_> = state.inside.keys().collect();
        let mut expected: Vec<_> = callers.iter().map(|caller| &caller.token).collect();
        inside.sort();
        expected.sort();
        assert_eq!(inside, expected, "{state:?}");
        state
    }
}

fn pass(ms: u64) {
    sleep(Duration::from_millis(ms));
}

#[test]
pub(crate) fn readers_are_inside_together_and_a_writer_alone_in_the_order_of_their_requests() {
    let mut scripts = scripts(&["one", "two"]);
    let ((a, first), (b, second)) = (scripts.inside(0, LONG, "one"), scripts.inside(0, LONG, "two"));
    let (writer, left) = scripts.waiting(1, LONG, "two");
    let (late, _) = scripts.waiting(0, LONG, "one");
    let (later, _) = scripts.waiting(0, LONG, "two");
    assert_eq!(first, second, "one number for all of a phase");
    assert!((9_000..=10_001).contains(&left), "the last of them: {left}");
    assert!(scripts.leave(&a) && scripts.pushes("two").iter().all(|push| push.0 != "granted"));
    assert!(scripts.leave(&b));
    scripts.only_inside(&[&writer]);
    let granted = scripts.pushes("two").into_iter().find(|push| push.0 == "granted").unwrap();
    assert!(granted.1 == writer.token && granted.2 > first as i64, "{granted:?}");
    // One release lets in all that fit.
    let calls = [scripts.calls_of("evalsha"), scripts.calls_of("zadd")];
    assert!(scripts.leave(&writer));
    assert_eq!([scripts.calls_of("evalsha"), scripts.calls_of("zadd")], [calls[0] + 1, calls[1] + 1]);
    let state = scripts.only_inside(&[&late, &later]);
    for (caller, inbox) in [(&late, "one"), (&later, "two")] {
        let pushes = scripts.pushes(inbox);
        assert!(
            pushes.contains(&("granted".to_owned(), caller.token.clone(), state.phase() as i64)),
            "{pushes:?}"
        );
    }
    assert!(state.phase() as i64 > granted.2);
    assert!(scripts.leave(&late) && scripts.leave(&later));
    assert_eq!(scripts.server.keys(), [""; 0]);
}

#[test]
pub(crate) fn permits_are_as_many_as_the_least_of_those_inside_and_the_newcomer_says() {
    let mut scripts = scripts(&["one"]);
    let three: Vec<_> = (0..3).map(|_| scripts.inside(3, LONG, "one").0).collect();
    // From three permits to five while the lock is never free: five count when the last of the three has left.
    let (five, _) = scripts.waiting(5, LONG, "one");
    let more: Vec<_> = (0..3).map(|_| scripts.waiting(5, LONG, "one").0).collect();
    assert!(scripts.leave(&three[0]));
    scripts.only_inside(&[&three[1], &three[2], &five]);
    assert!(scripts.leave(&three[1]));
    scripts.only_inside(&[&three[2], &five, &more[0]]);
    assert!(scripts.leave(&three[2]));
    scripts.only_inside(&[&five, &more[0], &more[1], &more[2]]);
    // And back.
    let (two, _) = scripts.waiting(2, LONG, "one");
    for caller in [&five, &more[0]] {
        scripts.leave(caller);
    }
    scripts.only_inside(&[&more[1], &more[2]]);
    scripts.leave(&more[1]);
    let state = scripts.only_inside(&[&more[2], &two]);
    assert!(state.value.starts_with("%holders|2|"), "{}", state.value);
    // Readers count, too, beside permits.
    let (reader, _) = scripts.waiting(0, LONG, "one");
    scripts.leave(&two);
    scripts.only_inside(&[&more[2], &reader]);
}

#[test]
pub(crate) fn one_that_dies_costs_its_own_ttl_and_a_waiter_knows_when() {
    let mut scripts = scripts(&["one"]);
    let (_dead, _) = scripts.inside(2, 60, "one");
    let (lives, _) = scripts.inside(2, LONG, "one");
    let (waiter, left) = scripts.waiting(2, LONG, "one");
    assert!((1..=61).contains(&left), "{left}");
    pass(left as u64 + 1);
    assert!(scripts.ask(&waiter, "again").is_inside());
    let state = scripts.only_inside(&[&lives, &waiter]);
    assert!(state.px >= LONG as i64 - 200, "the others keep theirs: {state:?}");
}

#[test]
pub(crate) fn when_all_have_died_ours_enter_at_the_end_of_the_lease_and_strangers_a_third_later() {
    let mut scripts = scripts(&["one"]);
    let (_, phase) = scripts.inside(0, 120, "dead");
    scripts.inside(0, 120, "dead");
    let px = scripts.state().px;
    assert!((221..=262).contains(&px), "{px}");
    let (waiter, left) = scripts.waiting(1, LONG, "one");
    pass(left as u64 + 1);
    let stranger: Option<String> = scripts.run(&["SET", LOCK, "stranger", "NX"]);
    assert!(stranger.is_none() && scripts.inspected() == 0);
    assert!(scripts.ask(&waiter, "again").is_inside());
    scripts.leave(&waiter);
    let (_, next) = scripts.inside(0, LONG, "one");
    assert!(next > phase);
}

/// Its connection is open, so its waiters count as there.
#[test]
pub(crate) fn a_stuck_process_costs_one_claim_whatever_its_callers_wait_for() {
    let mut scripts = scripts(&["one", "stuck"]);
    let (writer, _) = scripts.inside(1, LONG, "one");
    let of_the_stuck: Vec<_> = (0..6).map(|_| scripts.waiting(2, LONG, "stuck").0).collect();
    let (_exclusive, _) = scripts.waiting(1, LONG, "stuck");
    let (waiter, _) = scripts.waiting(0, LONG, "one");
    assert!(scripts.leave(&writer));
    scripts.only_inside(&[&of_the_stuck[0], &of_the_stuck[1]]);
    // Both notified waiters belong to the stuck process, so the first behind them is notified,
    // too.
    let hint = scripts.pushes("one").pop().unwrap();
    assert!(hint.0 == "next" && hint.1 == waiter.token && (900..=1001).contains(&hint.2), "{hint:?}");
    pass(hint.2 as u64 + 1);
    assert!(scripts.ask(&waiter, "again").is_inside());
    let state = scripts.only_inside(&[&waiter]);
    assert!(state.waiting.is_empty(), "{state:?}");
    assert!(scripts.pushes("stuck").iter().any(|push| push.0 == "gone"));
}

/// The first waiter wants the lock alone, and its process is stopped: its connection is open.
#[test]
pub(crate) fn a_first_waiter_that_does_not_answer_is_passed_over_after_a_claim() {
    let mut scripts = scripts(&["one", "two", "three", "stopped"]);
    let (inside, _) = scripts.inside(0, LONG, "one");
    let (writer, _) = scripts.waiting(1, LONG, "stopped");
    let (permit, _) = scripts.waiting(3, LONG, "stopped");
    // A reader behind it has room: the writer is notified to ask, and the reader asks again after
    // a claim.
    let (reader, left) = scripts.waiting(0, LONG, "two");
    assert!((900..=1_000).contains(&left), "{left}");
    assert_eq!(scripts.pushes("stopped"), [("next".to_owned(), writer.token.clone(), 0)]);
    // It is notified once, whoever asks, and others that ask do not answer for it.
    let (other, left) = scripts.waiting(0, LONG, "three");
    assert!((1..=1_000).contains(&left), "{left}");
    let (late, _) = scripts.waiting(1, LONG, "three");
    assert!(!scripts.ask(&late, "again").is_inside() && !scripts.ask(&other, "again").is_inside());
    assert!(scripts.pushes("stopped").is_empty());
    scripts.only_inside(&[&inside]);
    pass(left as u64 + 1);
    assert!(scripts.ask(&reader, "again").is_inside());
    let state = scripts.only_inside(&[&inside, &reader, &other]);
    assert_eq!(state.waiting, std::slice::from_ref(&late.token), "{permit:?}");
    assert_eq!(scripts.pushes("stopped").into_iter().map(|push| push.0).collect::<Vec<_>>(), ["gone"]);
    let queue_px: i64 = scripts.run(&["PTTL", QUEUE]);
    assert!(queue_px > 58_000, "{queue_px}");
    for caller in [&inside, &reader, &other] {
        assert!(scripts.leave(caller));
    }
    scripts.only_inside(&[&late]);
    assert!(scripts.leave(&late));
    assert_eq!(scripts.server.keys(), [""; 0]);
}

#[test]
pub(crate) fn a_first_waiter_that_answers_keeps_its_place() {
    let mut scripts = scripts(&["one", "two", "three"]);
    let (inside, _) = scripts.inside(0, LONG, "one");
    let (writer, _) = scripts.waiting(1, LONG, "two");
    let (reader, _) = scripts.waiting(0, LONG, "three");
    for answer in 0..4 {
        assert_eq!(scripts.pushes("two"), [("next".to_owned(), writer.token.clone(), 0)], "{answer}");
        match answer {
            // Another waiter of its process does, too.
            0 => drop(scripts.waiting(2, LONG, "two")),
            // And an older version of the scripts, which knows nothing of this.
            1 => drop(scripts.run::<u32>(&["PEXPIRE", QUEUE, "60000"])),
            _ => assert!(!scripts.ask(&writer, "again").is_inside()),
        }
        pass(1_010);
        assert!(!scripts.ask(&reader, "again").is_inside());
    }
    scripts.only_inside(&[&inside]);
    assert!(scripts.leave(&inside));
    scripts.only_inside(&[&writer]);
    // One with a single try has a hint sent, too.
    assert!(scripts.leave(&writer));
    let (_writer, _) = scripts.waiting(1, LONG, "two");
    for is_inside in [false, true] {
        let tries = scripts.caller(0, LONG, "three");
        assert_eq!(scripts.ask(&tries, "0").is_inside(), is_inside);
        pass(1_010);
    }
}

/// The tag of an inbox changes when its slot moves: the place of one that leaves may be an older one.
#[test]
pub(crate) fn one_that_leaves_takes_its_older_place_under_another_tag_with_it() {
    for number in [0, 1, 2] {
        let mut scripts = scripts(&["one{5}", "one{7}", "two"]);
        let (inside, _) = scripts.inside(number, LONG, "one{7}");
        let older = Caller { inbox: "one{5}".to_owned(), ..inside.clone() };
        let (next, _) = scripts.waiting(1, LONG, "two");
        let _: u32 = scripts.run(&["ZADD", QUEUE, "1", &older.place()]);
        assert!(scripts.leave(&inside));
        let state = scripts.only_inside(&[&next]);
        assert!(state.waiting.is_empty(), "{number}: {state:?}");
        assert!(scripts.leave(&next));
        // And one that waits.
        let (inside, _) = scripts.inside(0, LONG, "two");
        let (_writer, _) = scripts.waiting(1, LONG, "two");
        let waits = scripts.caller(number, LONG, "one{7}");
        let older = Caller { inbox: "one{5}".to_owned(), ..waits.clone() };
        let _: u32 = scripts.run(&["ZADD", QUEUE, "1", &older.place()]);
        assert!(!scripts.leave(&waits));
        scripts.only_inside(&[&inside]);
        scripts.forget_all();
    }
}

#[test]
pub(crate) fn a_process_that_lets_its_lease_end_is_not_stuck() {
    let mut scripts = scripts(&["one", "two"]);
    let (ends, _) = scripts.inside(2, LONG, "one");
    let (lives, _) = scripts.inside(2, LONG, "one");
    let (waiter, _) = scripts.waiting(2, LONG, "two");
    let (place, _) = scripts.waiting(2, LONG, "one");
    assert!(scripts.stay(&ends, 50, true));
    let hint = scripts.pushes("two").pop().unwrap();
    assert!(hint.0 == "next" && (0..=52).contains(&hint.2), "{hint:?}");
    pass(60);
    assert!(scripts.ask(&waiter, "again").is_inside());
    let state = scripts.only_inside(&[&lives, &waiter]);
    assert_eq!(state.waiting, [place.token]);
}

#[test]
pub(crate) fn dead_waiters_in_front_are_passed_over_and_one_that_gives_up_lets_those_behind_in() {
    let mut scripts = scripts(&["one", "two"]);
    let (reader, _) = scripts.inside(0, LONG, "one");
    let (writer, _) = scripts.waiting(1, LONG, "one");
    scripts.waiting(1, LONG, "dead");
    let (behind, _) = scripts.waiting(0, LONG, "two");
    assert!(!scripts.leave(&writer), "it was not inside");
    let state = scripts.only_inside(&[&reader, &behind]);
    assert!(state.waiting.is_empty());
    scripts.leave(&behind);
    // So does one that asks.
    scripts.waiting(1, LONG, "dead");
    scripts.inside(0, LONG, "two");
    assert!(scripts.state().waiting.is_empty());
}

/// Those behind them had others in front that were told: nobody would tell them when the leases end.
#[test]
pub(crate) fn whoever_clears_the_front_of_the_queue_tells_those_that_are_the_first_two_then() {
    for number in [2, 1] {
        let mut scripts = scripts(&["one", "two", "three", "four"]);
        let (inside, _) = scripts.inside(2, LONG, "one");
        scripts.inside(2, LONG, "one");
        let waiters = ["two", "three", "four"].map(|inbox| scripts.waiting(1, LONG, inbox).0);
        for _ in 0..2 {
            let dead = scripts.caller(2, LONG, "dead");
            let _: u32 = scripts.run(&["ZADD", QUEUE, "1", &dead.place()]);
        }
        assert_eq!(scripts.state().waiting.len(), 5);
        // It has a single try, or gives up its place.
        if number == 2 {
            let tries = scripts.caller(2, LONG, "one");
            assert!(!scripts.ask(&tries, "0").is_inside());
        } else {
            assert!(!scripts.leave(&waiters[2]));
        }
        assert_eq!(
            scripts.state().waiting[..2],
            [&waiters[0], &waiters[1]].map(|waiter| waiter.token.clone())
        );
        for (waiter, inbox) in waiters.iter().zip(["two", "three"]) {
            let pushes = scripts.pushes(inbox);
            let [(what, token, left)] = &pushes[..] else { panic!("{inbox}: {pushes:?}") };
            assert!(
                what == "next" && *token == waiter.token && (9_000..=10_001).contains(left),
                "{pushes:?}"
            );
        }
        assert!(scripts.pushes("four").is_empty(), "{inside:?}");
    }
    // The lease of a stuck process is over, and its waiters leave.
    let mut scripts = scripts(&["one", "two", "stuck"]);
    scripts.inside(2, 60, "stuck");
    let (inside, _) = scripts.inside(2, LONG, "one");
    let _places = [(); 2].map(|()| scripts.waiting(1, LONG, "stuck"));
    let (waiter, _) = scripts.waiting(1, LONG, "two");
    pass(62);
    let tries = scripts.caller(1, LONG, "one");
    assert!(!scripts.ask(&tries, "0").is_inside());
    let state = scripts.only_inside(&[&inside]);
    assert_eq!(state.waiting, std::slice::from_ref(&waiter.token));
    let pushes = scripts.pushes("two");
    assert!(
        pushes.iter().any(|(what, token, left)| what == "next" && *token == waiter.token && *left > 9_000),
        "{pushes:?}"
    );
}

/// A caller that finds the queue full clears dead waiters away, whether it then has a place or not.
#[test]
pub(crate) fn a_full_queue_that_loses_its_first_waiters_tells_those_that_are_the_first_two_then() {
    for held_by in ["a token", "a foreign client", "several"] {
        for (number, is_full) in [(1, true), (1, false), (2, true), (2, false)] {
            let mut scripts = scripts(&["one", "two", "three", "four"]);
            match held_by {
                "a token" => drop(scripts.inside(1, LONG, "one")),
                "several" => drop([(); 2].map(|()| scripts.inside(2, LONG, "one"))),
                _ => scripts.run(&["SET", LOCK, "foreign", "PX", "10000"]),
            }
            let waiters = ["two", "three", "four"].map(|inbox| scripts.waiting(2, LONG, inbox).0);
            for _ in 0..2 {
                let dead = scripts.caller(2, LONG, "dead");
                let _: u32 = scripts.run(&["ZADD", QUEUE, "1", &dead.place()]);
            }
            for inbox in ["two", "three", "four"] {
                scripts.pushes(inbox);
            }
            scripts.at_most = if is_full { 3 } else { 4 };
            let caller = scripts.caller(number, LONG, "one");
            let answer = scripts.ask(&caller, "join");
            assert_eq!(answer == Answer::Full(3), is_full, "{answer:?}");
            let expected = if held_by == "a foreign client" { 0..=0 } else { 9_000..=10_001 };
            for (waiter, inbox) in waiters.iter().zip(["two", "three"]) {
                let pushes = scripts.pushes(inbox);
                let [(what, token, left)] = &pushes[..] else { panic!("{held_by}, {inbox}: {pushes:?}") };
                assert!(what == "next" && *token == waiter.token && expected.contains(left), "{pushes:?}");
            }
            assert!(scripts.pushes("four").is_empty());
        }
    }
}

/// The lock was taken past its queue, behind the lease of a stuck process.
#[test]
pub(crate) fn behind_the_waiters_of_a_stuck_process_the_first_two_are_told() {
    for number in [1, 2] {
        let mut scripts = scripts(&["one", "two", "stuck"]);
        let (holder, _) = scripts.inside(1, LONG, "one");
        for _ in 0..3 {
            scripts.waiting(1, LONG, "stuck");
        }
        let (waiter, _) = scripts.waiting(1, LONG, "two");
        assert!(scripts.leave(&holder));
        // Its lease and the grace are over.
        let _: u32 = scripts.run(&["DEL", LOCK]);
        let (past, _) = scripts.inside(1, LONG, "one");
        scripts.pushes("two");
        let (caller, _) = scripts.waiting(number, LONG, "one");
        let state = scripts.only_inside(&[&past]);
        assert_eq!(state.waiting, [waiter.token.clone(), caller.token]);
        let pushes = scripts.pushes("two");
        let [(what, token, left)] = &pushes[..] else { panic!("{pushes:?}") };
        assert!(what == "next" && *token == waiter.token && *left > 9_000, "{pushes:?}");
    }
}

#[test]
pub(crate) fn a_thousand_readers_enter_in_four_scripts() {
    let mut scripts = scripts(&["one", "two"]);
    let (writer, _) = scripts.inside(1, LONG, "one");
    let readers: Vec<_> = (0..1000).map(|_| scripts.waiting(0, LONG, "one").0).collect();
    let (last, _) = scripts.waiting(1, LONG, "two");
    scripts.pushes("one");
    assert!(scripts.leave(&writer));
    // And one more each time, which asks.
    for entered in [250, 501, 752] {
        assert_eq!(scripts.inspected(), entered);
        let pushes = scripts.pushes("one");
        let next = pushes.iter().find(|push| push.0 == "free").unwrap();
        assert_eq!(next.1, readers[entered as usize].token);
        assert!(scripts.ask(&readers[entered as usize], "again").is_inside());
    }
    let state = scripts.state();
    assert_eq!((state.inside.len(), &state.waiting[..]), (1000, &[last.token][..]));
}

#[test]
pub(crate) fn a_lost_push_is_found_out_by_asking_and_a_claim_becomes_a_lease_by_a_renewal() {
    let mut scripts = scripts(&["one"]);
    let (writer, _) = scripts.inside(1, LONG, "one");
    let (reader, _) = scripts.waiting(0, LONG, "one");
    scripts.leave(&writer);
    let phase = scripts.only_inside(&[&reader]).phase();
    assert_eq!(scripts.ask(&reader, "again"), Answer::Inside { fence: phase });
    assert!(scripts.only_inside(&[&reader]).inside[&reader.token] <= 1001);
    assert!(scripts.stay(&reader, LONG, false));
    let state = scripts.only_inside(&[&reader]);
    assert!(state.inside[&reader.token] > 9_000 && state.px > 9_100 && state.holders_px > 9_000, "{state:?}");
    // A request that arrives late shortens nothing.
    assert!(scripts.stay(&reader, 20, false) && scripts.ask(&reader, "again").is_inside());
    assert!(scripts.only_inside(&[&reader]).inside[&reader.token] > 9_000);
}

/// A grant without an attempt is answered with a plain release.
#[test]
pub(crate) fn one_that_has_forgotten_what_it_asked_for_gives_it_back() {
    let mut scripts = scripts(&["one"]);
    let (stays, _) = scripts.inside(2, LONG, "one");
    let (forgotten, _) = scripts.inside(2, LONG, "one");
    let (waiter, _) = scripts.waiting(2, LONG, "one");
    assert!(scripts.leave(&Caller { number: 1, ..forgotten.clone() }) && !scripts.leave(&forgotten));
    scripts.only_inside(&[&stays, &waiter]);
}

#[test]
pub(crate) fn one_that_lets_its_lease_end_later_than_it_would_keeps_the_key_for_so_long() {
    let mut scripts = scripts(&["one"]);
    let (alone, _) = scripts.inside(2, 500, "one");
    assert!(scripts.stay(&alone, LONG, true));
    let state = scripts.only_inside(&[&alone]);
    let ends = state.inside[&alone.token];
    assert!(ends > 9_000 && state.px + 1 >= ends + 100 && state.holders_px + 1 >= ends, "{state:?}");
}

#[test]
pub(crate) fn what_is_deleted_is_lost_and_the_next_phase_has_another_number() {
    let mut scripts = scripts(&["one"]);
    let (a, phase) = scripts.inside(0, LONG, "one");
    let (b, _) = scripts.inside(5, LONG, "one");
    assert!(scripts.watch(&a, phase) > 9_000, "a change of the least number is none for a holder");
    let _: u32 = scripts.run(&["DEL", LOCK]);
    assert_eq!(scripts.watch(&a, phase), -1);
    assert!(!scripts.stay(&a, LONG, false));
    let (writer, fence) = scripts.inside(1, LONG, "one");
    assert!(fence > phase && scripts.watch(&a, phase) == 0 && !scripts.leave(&b));
    scripts.leave(&writer);
    let (next, next_phase) = scripts.inside(2, LONG, "one");
    assert!(next_phase > fence && scripts.watch(&a, phase) == 0 && !scripts.stay(&a, LONG, false));
    scripts.only_inside(&[&next]);
    // Without its holders, a lock counts nobody.
    let _: u32 = scripts.run(&["DEL", HOLDERS]);
    let (last, last_phase) = scripts.inside(2, LONG, "one");
    assert!(last_phase > next_phase && !scripts.stay(&next, LONG, false));
    scripts.leave(&last);
    assert_eq!(scripts.server.keys(), [""; 0]);
}

#[test]
pub(crate) fn an_operator_takes_the_lock_from_all_that_have_it() {
    let mut scripts = scripts(&["one", "two"]);
    let ((a, phase), (b, _)) = (scripts.inside(3, LONG, "one"), scripts.inside(3, LONG, "one"));
    let (writer, _) = scripts.waiting(1, LONG, "two");
    scripts.force_release();
    scripts.only_inside(&[&writer]);
    assert!(scripts.watch(&a, phase) == 0 && !scripts.stay(&b, LONG, false) && !scripts.leave(&a));
    scripts.waiting(3, LONG, "one");
    let (reader, _) = scripts.waiting(0, LONG, "two");
    scripts.force_release();
    let state = scripts.state();
    assert!(
        state.is_counted() && state.inside.len() == 2 && state.inside.contains_key(&reader.token),
        "{state:?}"
    );
    scripts.force_release();
    assert_eq!(scripts.server.keys(), [""; 0]);
}

/// Somebody has deleted the key of a lock in which one counted for several. Its member is left for a while.
#[test]
pub(crate) fn the_members_of_a_lock_that_was_deleted_keep_nobody_out() {
    let mut scripts = scripts(&["one", "two"]);
    let heavy = Caller { weight: 2, ..scripts.caller(2, LONG, "one") };
    assert!(scripts.ask(&heavy, "join").is_inside());
    let _: u32 = scripts.run(&["DEL", LOCK]);
    let (writer, _) = scripts.inside(1, LONG, "one");
    let (first, _) = scripts.waiting(2, LONG, "one");
    let (second, _) = scripts.waiting(0, LONG, "two");
    scripts.leave(&writer);
    let state = scripts.only_inside(&[&first, &second]);
    assert!(state.value.starts_with("%holders|2|"), "{state:?}");
}

/// A request that comes late finds another holder, or another phase.
#[test]
pub(crate) fn an_operator_takes_the_lock_from_the_holder_that_is_named() {
    let mut scripts = scripts(&["one", "two"]);
    let (writer, _) = scripts.inside(1, LONG, "one");
    let (next, _) = scripts.waiting(1, LONG, "two");
    // Its value has a mark.
    scripts.force_release_from(&writer.token);
    scripts.only_inside(&[&next]);
    scripts.force_release_from(&writer.token);
    scripts.only_inside(&[&next]);
    // One that had to wait: the time of the grant is behind the token.
    scripts.force_release_from(&next.token);
    assert_eq!(scripts.state().value, "");
    let ((a, phase), (b, _)) = (scripts.inside(3, LONG, "one"), scripts.inside(4, LONG, "two"));
    for name in ["%holders|1", &a.token, &format!("%holders|3|{phase}")] {
        scripts.force_release_from(name);
        scripts.only_inside(&[&a, &b]);
    }
    let heavy = Caller { weight: 2, ..scripts.caller(9, LONG, "one") };
    scripts.leave(&a);
    assert!(scripts.ask(&heavy, "join").is_inside());
    let (last, _) = scripts.waiting(1, LONG, "two");
    scripts.force_release_from(&format!("%holders|{phase}"));
    scripts.only_inside(&[&last]);
    scripts.force_release_from(&format!("%holders|{phase}"));
    scripts.only_inside(&[&last]);
    scripts.leave(&last);
    let _: String = scripts.run(&["SET", LOCK, "stranger"]);
    scripts.force_release_from("strange");
    assert_eq!(scripts.state().value, "stranger");
    scripts.force_release_from("stranger");
    assert_eq!(scripts.server.keys(), [""; 0]);
}

#[test]
pub(crate) fn an_operator_takes_its_place_from_one_of_several() {
    let mut scripts = scripts(&["one", "two"]);
    let ((a, phase), (b, _)) = (scripts.inside(3, LONG, "one"), scripts.inside(3, LONG, "two"));
    let (c, _) = scripts.inside(3, LONG, "two");
    assert_eq!(scripts.revoke(&a, "two"), 1);
    scripts.only_inside(&[&b, &c]);
    assert!(!scripts.stay(&a, LONG, false) && !scripts.leave(&a));
    assert_eq!(scripts.pushes("one"), [("revoked".to_owned(), a.token.clone(), 0)]);
    assert!(scripts.pushes("two").is_empty(), "the others keep theirs");
    // Whoever enters now is in the same phase, and a second call takes nothing from it.
    let (d, its_phase) = scripts.inside(3, LONG, "one");
    assert_eq!((its_phase, scripts.revoke(&a, "two")), (phase, 0));
    scripts.only_inside(&[&b, &c, &d]);
    // Behind it, those enter that have room: the writer, behind the last one.
    let (first, _) = scripts.waiting(3, LONG, "one");
    let (writer, _) = scripts.waiting(1, LONG, "two");
    let (behind, _) = scripts.waiting(3, LONG, "one");
    assert_eq!(scripts.revoke(&b, "one"), 1);
    scripts.only_inside(&[&c, &d, &first]);
    for holder in [&c, &d, &first] {
        assert_eq!(scripts.state().waiting, [&*writer.token, &*behind.token]);
        assert_eq!(scripts.revoke(holder, "one"), 1);
    }
    let state = scripts.only_inside(&[&writer]);
    assert!(!state.is_counted(), "{state:?}");
    // It has the lock alone.
    assert_eq!((scripts.revoke(&writer, "one"), scripts.revoke(&first, "one")), (0, 0));
    scripts.only_inside(&[&writer]);
    scripts.leave(&writer);
    scripts.only_inside(&[&behind]);
    assert_eq!((scripts.revoke(&behind, "one"), scripts.revoke(&behind, "one")), (1, 0));
    assert_eq!(scripts.server.keys(), [""; 0]);
}

/// The permits of one that takes several are free with it.
#[test]
pub(crate) fn a_heavy_one_that_an_operator_ends_gives_back_all_its_permits() {
    let mut scripts = scripts(&["one", "two"]);
    let takes = |scripts: &mut Scripts, weight| Caller { weight, ..scripts.caller(10, LONG, "one") };
    let (heavy, light) = (takes(&mut scripts, 7), takes(&mut scripts, 3));
    assert!(scripts.ask(&heavy, "join").is_inside() && scripts.ask(&light, "join").is_inside());
    let (waits, too_heavy) = (takes(&mut scripts, 7), takes(&mut scripts, 4));
    assert!(!scripts.ask(&waits, "join").is_inside() && !scripts.ask(&too_heavy, "join").is_inside());
    assert_eq!(scripts.revoke(&light, "two"), 1);
    scripts.only_inside(&[&heavy]);
    assert_eq!(scripts.revoke(&heavy, "two"), 1);
    scripts.only_inside(&[&waits]);
    assert_eq!(scripts.state().waiting, [&*too_heavy.token]);
}

/// A client of a version that knows no counted locks sees another kind of client in the value, and hands a lock over to one that waits
/// for permits as to any other: alone.
#[test]
pub(crate) fn one_that_an_older_client_has_granted_the_lock_has_it_alone() {
    let mut scripts = scripts(&["one"]);
    let (writer, _) = scripts.inside(1, LONG, "one");
    let (caller, _) = scripts.waiting(3, LONG, "one");
    let (other, _) = scripts.waiting(3, LONG, "one");
    assert!(scripts.state().value.ends_with('!'), "{writer:?}");
    let _: u32 = scripts.run(&["ZREM", QUEUE, &caller.place()]);
    let _: String = scripts.run(&["SET", LOCK, &format!("{}=1790000000!", caller.token), "PX", "1100"]);
    assert!(scripts.stay(&caller, LONG, false) && scripts.stay(&caller, LONG - 1, true));
    let state = scripts.only_inside(&[&caller]);
    assert!(!state.is_counted() && state.px > 9_000, "{state:?}");
    // When it asks, it is one of several, has their fencing token, and lets the others in.
    let answer = scripts.ask(&caller, "again");
    let state = scripts.only_inside(&[&caller, &other]);
    assert_eq!(answer, Answer::Inside { fence: state.phase() });
    assert!(state.inside[&caller.token] > 9_000 && state.inside[&other.token] <= 1_001, "{state:?}");
    assert!(scripts.leave(&caller) && scripts.leave(&other));
    // One that has gone gives it back alone.
    let (writer, _) = scripts.inside(1, LONG, "one");
    let (gone, _) = scripts.waiting(3, LONG, "one");
    let _: u32 = scripts.run(&["ZREM", QUEUE, &gone.place()]);
    let _: String = scripts.run(&["SET", LOCK, &format!("{}=1790000000!", gone.token), "PX", "1100"]);
    assert!(!scripts.leave(&writer) && scripts.leave(&gone));
    assert_eq!(scripts.server.keys(), [""; 0]);
}

#[test]
pub(crate) fn a_full_server_keeps_who_is_inside_and_lets_the_next_ones_in() {
    let mut scripts = scripts(&["one"]);
    let (a, _) = scripts.inside(2, 500, "one");
    let (b, _) = scripts.inside(2, LONG, "one");
    let (waiter, _) = scripts.waiting(2, LONG, "one");
    let _: String = scripts.run(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(scripts.stay(&a, LONG, false) && scripts.stay(&b, LONG, true));
    assert!(scripts.only_inside(&[&a, &b]).inside[&a.token] > 9_000);
    assert!(scripts.leave(&a));
    scripts.only_inside(&[&b, &waiter]);
    assert!(scripts.leave(&b) && scripts.leave(&waiter));
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scripts.inside(0, LONG, "one")));
    assert!(refused.is_err() && scripts.state().value.is_empty());
}

/// Access rules may change under a connection.
#[test]
pub(crate) fn those_that_may_not_be_counted_leave_a_free_lock() {
    // Whether a writer lets it in, and whether it goes the short way.
    let ways = [(false, false), (false, true), (true, false)];
    for (command, (waits, short)) in ways.iter().flat_map(|way| [("zadd", way), ("pexpire", way)]) {
        let mut scripts = scripts(&["one"]);
        // Redis 5 has no access rules.
        if scripts.server.try_run::<Vec<String>>("ACL USERS").is_err() {
            return;
        }
        // The short way needs a clock.
        if *short {
            let (first, _) = scripts.inside(0, LONG, "one");
            assert!(scripts.leave(&first));
        }
        let writer = waits.then(|| {
            let (writer, _) = scripts.inside(1, LONG, "one");
            scripts.waiting(0, LONG, "one");
            writer
        });
        let _: String = scripts.run(&["ACL", "SETUSER", "default", &format!("-{command}")]);
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match &writer {
            Some(writer) => drop(scripts.leave(writer)),
            None => drop(scripts.inside(0, LONG, "one")),
        }));
        assert!(refused.is_err(), "{command} {waits} {short}");
        assert_eq!(scripts.server.keys(), [""; 0], "{command} {waits} {short}");
    }
}

/// The waiter is admitted beside a reader that is inside, so the lock stays: its process must not hear of a grant that
/// nobody counts.
#[test]
pub(crate) fn one_that_may_not_be_counted_beside_others_is_not_granted_the_lock() {
    let mut scripts = scripts(&["one", "two"]);
    if scripts.server.try_run::<Vec<String>>("ACL USERS").is_err() {
        return;
    }
    let (reader, _) = scripts.inside(0, LONG, "one");
    let (writer, _) = scripts.waiting(1, LONG, "one");
    let (waiter, _) = scripts.waiting(0, LONG, "two");
    scripts.pushes("two");
    let _: String = scripts.run(&["ACL", "SETUSER", "default", "-zadd"]);
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scripts.leave(&writer)));
    let _: String = scripts.run(&["ACL", "SETUSER", "default", "+zadd"]);
    assert!(refused.is_err());
    let pushes = scripts.pushes("two");
    assert!(pushes.iter().all(|(kind, ..)| kind != "granted"), "{pushes:?}");
    scripts.only_inside(&[&reader]);
    assert!(scripts.ask(&waiter, "again").is_inside());
    scripts.only_inside(&[&reader, &waiter]);
}

/// Redeeming passes the queue: the lock was held all the time.
#[test]
pub(crate) fn a_ticket_and_those_that_are_counted_exclude_each_other() {
    let mut scripts = scripts(&["one", "two"]);
    let (giver, _) = scripts.inside(1, LONG, "one");
    assert!(scripts.stay(&giver, LONG, true));
    let (reader, _) = scripts.waiting(0, LONG, "one");
    let redeemer = scripts.caller(1, LONG, "two");
    assert!(scripts.redeem(&redeemer, &giver.token) > 0);
    scripts.only_inside(&[&redeemer]);
    assert!(scripts.leave(&redeemer));
    scripts.only_inside(&[&reader]);
    let late = scripts.caller(1, LONG, "two");
    assert_eq!(scripts.redeem(&late, &giver.token), -1, "others have it");
    scripts.leave(&reader);
    assert_eq!(scripts.redeem(&late, &giver.token), -2, "it is free");
}

#[test]
pub(crate) fn waiters_are_told_again_only_when_they_can_enter_earlier() {
    let mut scripts = scripts(&["one", "two"]);
    let (short, _) = scripts.inside(0, 5_000, "one");
    let (middle, _) = scripts.inside(0, 7_000, "one");
    let (long, _) = scripts.inside(0, LONG, "one");
    let (writer, _) = scripts.waiting(1, LONG, "two");
    assert!(scripts.leave(&short) && scripts.pushes("two").is_empty());
    assert!(scripts.leave(&long));
    let pushes = scripts.pushes("two");
    assert!(
        matches!(&pushes[..], [(kind, token, left)] if kind == "next" && *token == writer.token && *left <= 7_001)
    );
    assert!(scripts.leave(&middle));
}

#[test]
pub(crate) fn strangers_and_a_full_queue() {
    let mut scripts = scripts(&["one"]);
    let (a, _) = scripts.inside(2, LONG, "one");
    let (b, _) = scripts.inside(2, 200, "one");
    let stranger: Option<String> = scripts.run(&["SET", LOCK, "stranger", "NX", "PX", "50"]);
    assert!(stranger.is_none());
    // The key does not last for one that has left.
    assert!(scripts.leave(&a) && scripts.state().px <= 301);
    let (waiter, _) = scripts.waiting(1, LONG, "one");
    // A release that leaves the lock free for a moment: its waiters ask again at once.
    assert!(scripts.leave_free(&b));
    let state = scripts.state();
    assert!(state.value.is_empty() && scripts.pushes("one").iter().any(|push| push.0 == "free"), "{state:?}");
    let _: String = scripts.run(&["SET", LOCK, "stranger", "NX"]);
    let reader = scripts.caller(0, LONG, "one");
    let answer = scripts.ask(&reader, "join");
    assert!(matches!(answer, Answer::Busy { holder, left: -1, place: 1 } if holder == "stranger"));
    let _: u32 = scripts.run(&["DEL", LOCK]);
    assert!(scripts.ask(&waiter, "again").is_inside());
    let claimed: bool = scripts.run(&["EXISTS", CLAIM]);
    assert!(claimed, "the reader waits behind it");
    scripts.leave(&waiter);
    scripts.leave(&reader);
    let mut waiters = vec![scripts.inside(1, LONG, "one").0];
    waiters.extend((0..1000).map(|_| scripts.waiting(3, LONG, "one").0));
    scripts.at_most = 1000;
    let late = scripts.caller(3, LONG, "one");
    assert_eq!(scripts.ask(&late, "join"), Answer::Full(1000));
}

/// Any client may have written it. It counts until its time, as a member of ours does.
#[test]
pub(crate) fn a_member_of_another_form_is_in_nobodys_way() {
    for member in ["", "foreign", "|", "a|b", "a|b|c|d", "a|0|", "\u{ff}|\n|x"] {
        for number in [0, 1, 2] {
            let mut scripts = scripts(&["one", "two"]);
            let (_ends, _) = scripts.inside(0, 30, "one");
            let (stays, _) = scripts.inside(0, LONG, "two");
            let _: u32 = scripts.run(&["ZADD", HOLDERS, "1", member]);
            let _: u32 = scripts.run(&["ZADD", HOLDERS, "2", "another"]);
            pass(40);
            let newcomer = scripts.caller(number, LONG, "one");
            let answer = scripts.ask(&newcomer, "join");
            assert_eq!(answer.is_inside(), number != 1, "{member}: {answer:?}");
            // On the short way nobody looks.
            if number > 0 {
                let left: u32 = scripts.run(&["ZCARD", HOLDERS]);
                assert_eq!(left, number, "those whose time is over have left");
            }
            // One whose time is to come.
            let ends: Vec<String> = scripts.run(&["ZRANGE", HOLDERS, "-1", "-1", "WITHSCORES"]);
            let _: u32 = scripts.run(&["ZADD", HOLDERS, &ends[1], member]);
            assert!(scripts.stay(&stays, LONG, false) && scripts.stay(&stays, LONG, true));
            assert!(scripts.inspected() >= 2);
            let (writer, _) = scripts.waiting(1, LONG, "two");
            assert!(scripts.leave(&stays));
            scripts.force_release();
            scripts.force_release();
            scripts.leave(&newcomer);
            scripts.leave(&writer);
            assert_eq!(scripts.server.keys(), [""; 0]);
        }
    }
}

/// Nobody has the lock any more, also for a client that knows no holders.
#[test]
pub(crate) fn the_key_ends_with_the_last_lease_where_that_ends_sooner_than_it_was_to() {
    for ends in [300, 7_000] {
        let mut scripts = scripts(&["one"]);
        let (brief, _) = scripts.inside(2, LONG, "one");
        let (other, _) = scripts.inside(2, LONG, "one");
        assert!(scripts.stay(&brief, ends, true));
        assert!(scripts.state().px > 9_900, "the other one has it for so long");
        assert!(scripts.stay(&other, ends, true));
        let state = scripts.only_inside(&[&brief, &other]);
        let left = state.inside[&other.token];
        assert!(state.px >= left + 99 && state.px <= left + 110, "{state:?}");
        assert!(state.holders_px >= left, "{state:?}");
    }
}

#[test]
pub(crate) fn dead_waiters_leave_a_queue_that_is_full() {
    for number in [0, 1, 2] {
        for is_free in [true, false] {
            let mut scripts = scripts(&["one"]);
            scripts.at_most = 40;
            let (holder, _) = scripts.inside(1, LONG, "one");
            for waiter in 0..40 {
                scripts.waiting(waiter % 3, LONG, "dead");
            }
            if is_free {
                let _: u32 = scripts.run(&["DEL", LOCK]);
            }
            let caller = scripts.caller(number, LONG, "one");
            let answer = scripts.ask(&caller, "join");
            assert_eq!(answer.is_inside(), is_free, "{answer:?}");
            assert!(!matches!(answer, Answer::Full(_)), "{answer:?}");
            // No more than 16 are looked at. An exclusive one takes a key that is not there before it looks.
            let expected = match (is_free, number) {
                (true, 1) => 40,
                (true, _) => 0,
                (false, _) => 25,
            };
            assert_eq!(scripts.state().waiting.len(), expected, "{number} {is_free}");
            scripts.leave(&holder);
        }
    }
}

/// The others that wait are there.
#[test]
pub(crate) fn one_dead_waiter_makes_room_for_one() {
    let mut scripts = scripts(&["one", "two"]);
    scripts.at_most = 10;
    scripts.inside(1, LONG, "one");
    let (alive, dead) = (["two"; 5], ["dead"; 1]);
    for inbox in alive.iter().chain(&dead).chain(&["two"; 4]) {
        scripts.waiting(1, LONG, inbox);
    }
    let caller = scripts.caller(1, LONG, "one");
    assert!(matches!(scripts.ask(&caller, "join"), Answer::Busy { place: 9, .. }));
    let late = scripts.caller(1, LONG, "one");
    assert_eq!(scripts.ask(&late, "join"), Answer::Full(10));
    assert_eq!(scripts.ask(&late, "join_again"), Answer::Full(10));
}

/// Also where a caller enters by the short way beside one that takes one permit.
#[test]
pub(crate) fn one_that_takes_several_permits_counts_for_as_many_whatever_way_it_enters() {
    let mut scripts = Scripts::start();
    scripts.listen("one");
    let taking = |scripts: &mut Scripts, weight, ttl| Caller { weight, ..scripts.caller(5, ttl, "one") };
    let [light, heavy, next] =
        [(1, 5000), (4, 1000), (1, 1000)].map(|(weight, ttl)| taking(&mut scripts, weight, ttl));
    assert!(matches!(scripts.ask(&light, "0"), Answer::Inside { .. }));
    assert!(scripts.state().value.starts_with("%holders|5|"));
    assert!(matches!(scripts.ask(&heavy, "0"), Answer::Inside { .. }));
    assert!(scripts.state().value.starts_with("%holders|1|"), "to scripts that know no weights");
    assert!(matches!(scripts.ask(&next, "0"), Answer::Busy { .. }), "5 of 5 are taken");
    assert!(scripts.leave(&heavy));
    assert!(matches!(scripts.ask(&next, "0"), Answer::Inside { .. }));
    let three = taking(&mut scripts, 3, 1000);
    assert!(matches!(scripts.ask(&three, "0"), Answer::Inside { .. }));
    assert!(matches!(scripts.ask(&heavy, "0"), Answer::Busy { .. }));
}

#[test]
pub(crate) fn a_waiter_is_told_when_enough_permits_are_free() {
    let mut scripts = Scripts::start();
    for inbox in ["one", "two"] {
        scripts.listen(inbox);
    }
    let mut taking = |weight, inbox| Caller { weight, ..scripts.caller(10, 5000, inbox) };
    let [heavy, light, waits] = [taking(6, "one"), taking(1, "one"), taking(5, "two")];
    for inside in [&heavy, &light] {
        assert!(matches!(scripts.ask(inside, "0"), Answer::Inside { .. }));
    }
    assert!(matches!(scripts.ask(&waits, "join"), Answer::Busy { .. }));
    scripts.pushes("two");
    scripts.stay(&heavy, 300, true);
    let told = scripts.pushes("two");
    let [(kind, token, left)] = &*told else { panic!("{told:?}") };
    assert_eq!((&**kind, token), ("next", &waits.token));
    assert!((200..=302).contains(left), "{left}");
}

/// The lock says when the last of those inside ends, so that the waiter does not ask again and again.
#[test]
pub(crate) fn one_that_takes_more_than_those_inside_allow_waits_for_the_last_of_them() {
    let mut scripts = Scripts::start();
    scripts.listen("one");
    let inside = scripts.caller(2, 5000, "one");
    assert!(matches!(scripts.ask(&inside, "0"), Answer::Inside { .. }));
    let waits = Caller { weight: 3, ..scripts.caller(3, 5000, "one") };
    for how in ["join", "again"] {
        let answer = scripts.ask(&waits, how);
        assert!(matches!(answer, Answer::Busy { left: 4000..=5001, .. }), "{how}: {answer:?}");
    }
}

#[test]
pub(crate) fn one_that_is_downgraded_lets_in_those_in_front_that_have_room_beside_it() {
    let mut scripts = scripts(&["one", "two"]);
    let (writer, fence) = scripts.inside(1, LONG, "one");
    let (reader, _) = scripts.waiting(0, LONG, "two");
    let (of_two, _) = scripts.waiting(3, LONG, "two");
    let (next, _) = scripts.waiting(1, LONG, "two");
    let (behind, _) = scripts.waiting(0, LONG, "one");
    let _: u32 = scripts.run(&["ZADD", QUEUE, "1", &writer.place()]);
    assert!(scripts.pushes("two").iter().all(|(kind, ..)| kind == "next"));
    // Neither another token, nor one that waits, nor this one once it is out.
    let strange = scripts.caller(1, LONG, "one");
    assert_eq!([&strange, &reader].map(|caller| scripts.downgrade(caller, fence)), [0, 0]);
    scripts.only_inside(&[&writer]);
    for _ in 0..2 {
        assert_eq!(scripts.downgrade(&writer, fence), fence);
        let state = scripts.only_inside(&[&writer, &reader, &of_two]);
        assert_eq!((state.phase(), state.waiting.len()), (fence, 2), "{state:?}");
        assert!(state.inside[&writer.token] > 9_000 && state.inside[&reader.token] <= 1_001, "{state:?}");
        assert!(state.px > 10_000, "{state:?}");
    }
    let granted = scripts.pushes("two").into_iter().filter(|(kind, ..)| kind == "granted");
    let granted: Vec<_> = granted.map(|(_, token, phase)| (token, phase.unsigned_abs())).collect();
    assert_eq!(granted, [(reader.token.clone(), fence), (of_two.token.clone(), fence)]);
    // It is one of several from now on, for requests of either kind.
    let shared = Caller { number: 0, ..writer.clone() };
    assert!(scripts.stay(&shared, LONG, false) && scripts.watch(&writer, fence) > 0);
    assert!(!scripts.stay(&writer, LONG, false), "it does not have the lock alone");
    assert!(scripts.leave(&shared) && scripts.downgrade(&writer, fence) == 0);
    assert!(scripts.leave(&of_two) && scripts.leave(&reader));
    scripts.only_inside(&[&next]);
    assert!(scripts.leave(&next));
    scripts.only_inside(&[&behind]);
    assert!(scripts.leave(&behind));
    assert_eq!(scripts.server.keys(), [""; 0]);
}

#[test]
pub(crate) fn one_that_is_downgraded_leaves_nothing_of_what_was_before() {
    let mut scripts = scripts(&["one{5}", "one{7}", "two"]);
    // The members of a lock that was deleted, and the claim of a process that was granted the lock.
    let (heavy, _) = scripts.inside(2, LONG, "two");
    let _: u32 = scripts.run(&["DEL", LOCK]);
    let (writer, fence) = scripts.inside(1, LONG, "one{7}");
    let (reader, _) = scripts.waiting(0, LONG, "two");
    let (second, _) = scripts.waiting(0, LONG, "two");
    let _: u32 = scripts.run(&["ZADD", HOLDERS, "99999999999999", &heavy.place().replace("|10000|", "|2|")]);
    let _: String = scripts.run(&["SET", CLAIM, "two", "PX", "60000"]);
    // A place of its own under another tag, and one as its kind has it.
    let older = Caller { inbox: "one{5}".to_owned(), ..writer.clone() };
    for place in [older.place(), writer.place()] {
        let _: u32 = scripts.run(&["ZADD", QUEUE, "1", &place]);
    }
    assert_eq!(scripts.downgrade(&writer, fence), fence);
    let state = scripts.only_inside(&[&writer, &reader, &second]);
    assert!(state.waiting.is_empty(), "{state:?}");
    assert!(!scripts.run::<bool>(&["EXISTS", CLAIM]));
}

#[test]
pub(crate) fn one_without_a_fencing_token_draws_it_when_it_is_downgraded() {
    let mut scripts = scripts(&["one"]);
    let writer = Caller { fenced: false, ..scripts.caller(1, LONG, "one") };
    assert_eq!(scripts.ask(&writer, "join"), Answer::Inside { fence: 0 });
    assert!(scripts.stay(&writer, 2 * LONG, false));
    // It has asked again meanwhile, and has a place behind another one.
    let (next, _) = scripts.waiting(1, LONG, "one");
    let _: u32 = scripts.run(&["ZADD", QUEUE, "9999999999999999", &writer.place()]);
    let phase = scripts.downgrade(&writer, 0);
    let state = scripts.only_inside(&[&writer]);
    assert!(phase > 0 && state.phase() == phase && state.waiting == [next.token], "{state:?}");
    assert_eq!(scripts.downgrade(&writer, 0), phase, "it draws none again");
    // A request that comes late does not shorten its lease.
    let brief = Caller { ttl: 100, ..writer.clone() };
    scripts.downgrade(&brief, 0);
    let long = Caller { ttl: 4 * LONG, ..writer.clone() };
    let state = scripts.only_inside(&[&writer]);
    assert!(state.inside[&writer.token] > 19_000, "{state:?}");
    scripts.downgrade(&long, 0);
    let state = scripts.only_inside(&[&writer]);
    assert!(
        state.inside[&writer.token] > 39_000 && state.px >= state.inside[&writer.token] + 100,
        "{state:?}"
    );
}
