//! A waiter is never forgotten, by hand: pushes that come early, places in the queue that are gone.

use super::*;

/// The first waits in the queue, and a push to the second overtakes the answer that tells its place.
fn told_early(what: What) -> (Script, Outcome) {
    let mut script = Script::connected();
    let _first = queued(1, &mut script);
    let outcome = script.acquires(2, None);
    script.tells(2, what);
    assert_eq!(script.sent.len(), 1, "nothing but its ask");
    let busy = script.busy(1);
    script.answers(JOIN, busy);
    (script, outcome)
}

#[test]
fn a_grant_that_overtakes_its_place_is_entered_with_the_answer() {
    let (script, mut outcome) = told_early(What::Granted { fence: 7, at: ServerTime(SERVER_START) });
    let lease = held(&mut outcome);
    assert!(lease.is_some_and(|lease| lease.remaining(script.now) > Some(CLAIM / 2)));
    script.is_quiet();
}

#[test]
fn a_grant_that_overtakes_its_place_and_is_over_is_asked_about() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    let at = script.server_time();
    script.tells(1, What::Granted { fence: 7, at });
    let place = script.busy(1);
    script.passes(CLAIM);
    script.answers(JOIN, place);
    assert!(held(&mut outcome).is_none());
    script.answers(AGAIN, Reply::Held { fence: 8 });
    assert!(held(&mut outcome).is_some());
}

#[test]
fn a_hint_that_overtakes_the_answer_is_followed() {
    let claimant = Claimant::of("inbox");
    let overdue = Action::Acquire(Mode::Overdue { claimant });
    for (what, by, action) in [
        (What::Next { claim: CLAIM, claimant }, CLAIM + SECOND / 100, overdue),
        (What::LeftFree, SECOND / 100, AGAIN),
    ] {
        let (mut script, _outcome) = told_early(what);
        script.passes(by);
        script.tick();
        assert!(script.sent.iter().any(|(id, _, request)| *id == 2 && request.action == action), "{what:?}");
    }
}

#[test]
fn a_caller_that_leaves_after_an_early_grant_gives_it_back_once() {
    let mut script = Script::connected();
    drop(script.acquires(1, None));
    let at = script.server_time();
    script.grants(1, at);
    script.table.abandon(script.now, 1);
    script.send();
    script.grants(1, at);
    let busy = script.busy(0);
    script.answers(JOIN, busy);
    script.answers(Action::Release, Reply::Done);
    script.is_quiet();
    assert!(script.table.is_idle());
    assert!(script.table.by_token.is_empty());
}

#[test]
fn a_push_behind_the_answer_that_tells_the_same_changes_nothing() {
    let mut script = Script::connected();
    let mut outcome = queued(1, &mut script);
    script.passes(2 * SECOND);
    script.tick();
    script.answers(AGAIN, Reply::Held { fence: 7 });
    let lease = held(&mut outcome);
    let at = script.server_time();
    script.grants(1, at);
    script.is_quiet();
    assert!(lease.is_some_and(|lease| lease.remaining(script.now).is_some()));
}

/// Exactly these ask, in this order.
#[track_caller]
fn ask(script: &mut Script, expected: &[(Id, Action)]) {
    let sent: Vec<_> = script.sent.iter().map(|(id, _, request)| (*id, request.action)).collect();
    assert_eq!(sent, expected);
}

#[test]
fn when_one_has_lost_its_place_all_of_its_process_ask_once_and_in_order() {
    let mut script = Script::connected();
    let outcomes: Vec<_> = (1..=4).map(|id| queued(id, &mut script)).collect();
    script.passes(2 * SECOND);
    script.tick();
    ask(&mut script, &[(1, AGAIN)]);
    script.tells(1, What::PlaceLost);
    let busy = || Reply::Busy {
        holder: Holder { name: Some("host:1".into()), free_in: Some(TTL) },
        place: Some(Place { in_front: 0, at: ServerTime(SERVER_START) }),
    };
    script.answers(AGAIN, busy());
    ask(&mut script, &[(2, REJOIN), (3, REJOIN), (4, REJOIN)]);
    for _ in 2..=4 {
        script.answers(REJOIN, busy());
    }
    script.is_quiet();
    drop(outcomes);
}

#[test]
fn when_one_gets_the_lock_without_a_place_all_others_ask() {
    let mut script = Script::connected();
    let mut outcomes: Vec<_> = (1..=3).map(|id| queued(id, &mut script)).collect();
    script.passes(2 * SECOND);
    script.tick();
    script.answers(AGAIN, Reply::Held { fence: 7 });
    assert!(held(&mut outcomes[0]).is_some());
    script.tells(1, What::PlaceLost);
    ask(&mut script, &[(2, REJOIN), (3, REJOIN)]);
}

#[test]
fn when_everything_has_changed_all_waiters_ask_in_order() {
    let mut script = Script::with(Abilities { hands_off: true, watches: true, votes: false });
    let outcomes: Vec<_> = (1..=3).map(|id| queued(id, &mut script)).collect();
    script.table.changed(script.now, None);
    script.send();
    ask(&mut script, &[(1, REJOIN), (2, REJOIN), (3, REJOIN)]);
    drop(outcomes);
}

#[test]
fn the_next_of_a_process_makes_sure_of_its_place_from_time_to_time() {
    let mut script = Script::connected();
    let mut outcomes: Vec<_> = (1..=3).map(|id| queued(id, &mut script)).collect();
    let at = script.server_time();
    script.grants(1, at);
    assert!(held(&mut outcomes[0]).is_some());
    script.passes(SECOND * 9 / 10);
    script.tick();
    let asked = script.sent.extract_if(.., |(_, _, request)| request.action == AGAIN);
    assert_eq!(asked.map(|(id, ..)| id).collect::<Vec<_>>(), [2]);
    script.answers(RENEW, Reply::Done);
    // The holder and then that waiter leave: the next one does so, too.
    for (id, answer) in [(1, Reply::Done), (2, Reply::NotMine)] {
        script.table.abandon(script.now, id);
        script.send();
        script.answers(Action::Release, answer);
    }
    script.passes(2 * SECOND);
    script.tick();
    ask(&mut script, &[(3, AGAIN)]);
}

#[test]
fn what_the_server_has_begun_is_asked_for_again_at_once() {
    let mut script = Script::connected();
    let unfinished = || Reply::Refused(Refusal::Unfinished);
    let mut outcome = script.acquires(1, Some(Duration::ZERO));
    script.answers(Action::Acquire(Mode::OneTry), unfinished());
    script.answers(Action::Acquire(Mode::OneTry), Reply::Held { fence: 7 });
    assert!(held(&mut outcome).is_some());
    script.table.release(script.now, 1, None);
    script.send();
    script.answers(Action::Release, unfinished());
    script.answers(Action::Release, Reply::Done);
    assert!(script.table.is_idle());
}

#[test]
fn a_refusal_ends_a_bounded_wait_alone() {
    let mut script = Script::connected();
    let refused = || Reply::Refused(Refusal::Never("NOPERM no right".into()));
    let mut outcomes = [script.acquires(1, Some(SECOND)), script.acquires(2, None)];
    script.answers(JOIN, refused());
    script.answers(JOIN, refused());
    assert!(matches!(outcomes[0].try_recv(), Ok(Err(LockError::Misconfigured { .. }))));
    script.passes(SECOND);
    script.tick();
    script.answers(JOIN, Reply::Held { fence: 1 });
    assert!(held(&mut outcomes[1]).is_some());
}

#[test]
fn a_server_that_turns_us_away_ends_a_bounded_wait_alone() {
    let mut script = Script::connected();
    let mut before = [script.acquires(1, Some(SECOND)), script.acquires(2, None)];
    script.table.disconnected("cut".into());
    let trouble = Disconnected { reason: "WRONGPASS".into(), turned_away: true };
    script.table.unreachable(script.now, trouble);
    let mut after = [script.acquires(3, Some(SECOND)), script.acquires(4, None)];
    for outcomes in [&mut before, &mut after] {
        assert!(matches!(outcomes[0].try_recv(), Ok(Err(LockError::Misconfigured { .. }))));
        assert!(outcomes[1].try_recv().is_err(), "it waits");
    }
    script.sent.clear();
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.send();
    ask(&mut script, &[(1, Action::Release), (2, JOIN), (4, JOIN)]);
}

#[test]
fn a_claim_that_is_not_over_yet_is_nobodys_fault() {
    let mut script = Script::connected();
    let claimant = Claimant::of("inbox");
    let _first = queued(1, &mut script);
    let next = What::Next { claim: CLAIM, claimant };
    script.tells(1, next);
    // The lock was claimed, released and left free since.
    script.passes(CLAIM / 2);
    script.tells(1, What::LeftFree);
    script.passes(CLAIM);
    script.tick();
    let busy = script.busy(0);
    script.answers(AGAIN, busy);
    // It asks for another reason.
    script.tells(1, next);
    script.passes(CLAIM / 2);
    script.tells(1, What::PlaceLost);
    script.table.changed(script.now, Some(&["lock:k".into()]));
    script.send();
    ask(&mut script, &[(1, AGAIN)]);
}
