//! A waiter is never forgotten, by hand.

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
    for (what, by) in [(What::Next { claim: CLAIM }, CLAIM + SECOND / 100), (What::LeftFree, SECOND / 100)] {
        let (mut script, _outcome) = told_early(what);
        script.passes(by);
        script.tick();
        assert!(script.sent.iter().any(|(id, _, request)| *id == 2 && request.action == AGAIN), "{what:?}");
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
