//! The requests of waiters: which one asks, and how often.

use super::*;

#[test]
fn a_caller_that_has_gone_keeps_nothing_for_a_min_hold() {
    let mut scenario = Scenario::connected();
    drop(scenario.acquires_for(1, None, Some(SECOND)));
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    scenario.answers(Action::Release, Reply::Done);
}

#[test]
fn a_reply_that_took_longer_than_the_lease_is_not_a_lock() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    scenario.passes(TTL);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
    assert!(held(&mut outcome).is_none());
    let Some((_, _, release)) = scenario.next() else { unreachable!("it is released") };
    assert_eq!(release.action, Action::Release);
    let Some((_, _, fresh)) = scenario.next() else { unreachable!("it is asked for again") };
    assert_eq!(fresh.action, JOIN_AGAIN);
    assert_ne!(fresh.token, release.token, "a token is never reused");
}

#[test]
fn a_caller_that_leaves_before_the_reply_releases_the_lock() {
    let mut scenario = Scenario::connected();
    drop(scenario.acquires(1, None));
    scenario.abandons(1);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
    scenario.answers(Action::Release, Reply::Done);
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn one_try_is_one_request() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, Some(Duration::ZERO));
    let busy = Reply::Acquire(Verdict::Busy { holder: Holder::default(), place: None });
    scenario.answers(Action::Acquire(Mode::OneTry), busy);
    assert!(
        matches!(outcome.try_recv(), Ok(AcquireOutcome::Failed(error)) if matches!(*error, LockError::Busy { .. }))
    );
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn one_try_fails_at_once_when_there_is_no_server() {
    let mut scenario = Scenario::connected();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    let mut trying = scenario.acquires(1, Some(Duration::ZERO));
    let mut waiting = scenario.acquires(2, None);
    assert!(trying.try_recv().is_err(), "an idle connection may have been cut: it is made anew first");
    let refused = Disconnected { reason: "connection refused".into(), is_permanent: false };
    scenario.table.unreachable(scenario.now, refused);
    assert!(
        matches!(trying.try_recv(), Ok(AcquireOutcome::Failed(error)) if matches!(*error, LockError::Unavailable { .. }))
    );
    assert!(waiting.try_recv().is_err(), "who waits goes on waiting");
}

#[test]
fn only_the_first_of_a_process_asks_again() {
    let mut scenario = Scenario::connected();
    let outcomes: Vec<_> = (1..=5).map(|id| queued(id, &mut scenario)).collect();
    for _ in 0..10 {
        scenario.passes(2 * SECOND);
        scenario.tick();
        assert!(matches!(scenario.sent.as_slice(), [(1, ..)]), "{} asked", scenario.sent.len());
        let busy = scenario.busy(0);
        scenario.answers(AGAIN, busy);
    }
    drop(outcomes);
    scenario.abandons(1);
    scenario.answers(Action::Release, Reply::NotHeld);
    scenario.passes(2 * SECOND);
    scenario.tick();
    assert!(matches!(scenario.sent.as_slice(), [(2, ..)]), "then the next one does");
}

#[test]
fn the_first_of_the_process_asks_when_the_claim_in_front_of_one_is_over() {
    let mut scenario = Scenario::connected();
    let outcomes: Vec<_> = (1..=2).map(|id| queued(id, &mut scenario)).collect();
    let kind = PushKind::Next { claim: CLAIM, at: ServerTime(SERVER_START) };
    let push = Push {
        token: Token::from_value("token 2"),
        name: "lock:k".into(),
        kind,
        followers: "".into(),
        is_undercut: false,
    };
    scenario.table.on_push(scenario.now, &push);
    scenario.passes(CLAIM / 10);
    scenario.tick();
    scenario.assert_quiet();
    scenario.passes(CLAIM);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(1, AGAIN)]);
    drop(outcomes);
}

/// The push of the grant is lost. Its hint was about the lease of the holder in this process.
#[test]
fn a_waiter_that_becomes_the_first_asks_from_time_to_time_whatever_a_hint_has_told() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let _waiters = [queued(2, &mut scenario), queued(3, &mut scenario)];
    scenario.abandons(2);
    scenario.answers(Action::Release, Reply::NotHeld);
    let at = scenario.server_time();
    scenario.tells(3, PushKind::Next { claim: TTL, at });
    scenario.drops_guard(1);
    scenario.answers(Action::Release, Reply::Done);
    scenario.assert_quiet();
    scenario.passes(SECOND);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(3, AGAIN)]);
}

#[test]
fn waiters_behind_the_first_ask_when_the_server_hands_over() {
    let mut scenario = Scenario::with(NEITHER);
    let _first = scenario.acquires(1, None);
    let _second = scenario.acquires(2, None);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Busy { holder: Holder::default(), place: None }));
    scenario.assert_quiet();
    scenario.table.can(scenario.now, HANDS_OVER);
    scenario.send();
    assert!(matches!(scenario.sent.as_slice(), [(2, _, Request { action: JOIN, .. })]));
}

/// Each waiter is the first of this process for a tenth of a second, which is less than its pause.
/// Only asks keep the queue.
#[test]
fn a_queue_whose_waiters_get_the_lock_quickly_does_not_expire() {
    let mut scenario = Scenario::connected();
    let mut asked = scenario.now;
    let outcomes: Vec<Outcome> = (1..=650)
        .map(|id| {
            let outcome = scenario.acquires(id, None);
            let busy = scenario.busy(50);
            scenario.answers(JOIN, busy);
            outcome
        })
        .collect();
    for (mut outcome, id) in outcomes.into_iter().zip(1..) {
        scenario.grants(id, scenario.server_time());
        assert!(held(&mut outcome).is_some());
        scenario.passes(SECOND / 10);
        scenario.tick();
        while let Some((first, sent, request)) = scenario.next() {
            asked = scenario.now;
            let busy = scenario.busy(50);
            scenario.table.reply(scenario.now, first, sent, &request, busy);
        }
        assert!(scenario.now.since(asked) < 30 * SECOND, "the queue lives for a minute");
        scenario.drops_guard(id);
        scenario.answers(Action::Release, Reply::Done);
    }
}
