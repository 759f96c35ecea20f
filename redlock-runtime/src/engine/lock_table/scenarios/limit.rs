//! The limit of a wait: a caller gives up with an answer of the server that is as new as its limit,
//! or without one.

use super::*;

/// An answer is late 10 ms later.
const ALMOST_LATE: Duration = Duration::from_millis(240);

/// Two waiters in the queue, of which the first waits without a limit and the second for a second;
/// and the outcome of the second.
fn two_waiters(scenario: &mut Scenario) -> (Outcome, Outcome) {
    let first = queued(1, scenario);
    let second = scenario.acquires(2, Some(SECOND));
    let busy = scenario.busy(1);
    scenario.answers(JOIN, busy);
    (first, second)
}

fn is_timed_out(outcome: &mut Outcome) -> bool {
    matches!(failed(outcome), Some(LockError::TimedOut { .. }))
}

fn is_unavailable(outcome: &mut Outcome) -> bool {
    matches!(failed(outcome), Some(LockError::Unavailable { .. }))
}

fn is_pending(outcome: &mut Outcome) -> bool {
    matches!(outcome.try_recv(), Err(TryRecvError::Empty))
}

#[test]
fn the_server_is_asked_once_more_and_its_answer_ends_the_wait() {
    let mut scenario = Scenario::connected();
    let (_first, mut second) = two_waiters(&mut scenario);
    scenario.passes(SECOND);
    scenario.tick();
    assert!(is_pending(&mut second), "the last answer is a second old");
    assert_eq!(scenario.unanswered(), [(1, AGAIN)], "only the first of the process asks");
    scenario.passes(SECOND / 100);
    let busy = scenario.busy(0);
    scenario.answers(AGAIN, busy);
    assert!(is_timed_out(&mut second));
    scenario.answers(Action::Release, Reply::NotHeld);
    scenario.assert_quiet();
}

#[test]
fn it_is_asked_so_long_before_the_limit_as_answers_take() {
    let mut scenario = Scenario::connected();
    scenario.table.learn_answer_time(SECOND / 10);
    let (_first, mut second) = two_waiters(&mut scenario);
    scenario.passes(SECOND * 9 / 10);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(1, AGAIN)]);
    let busy = scenario.busy(0);
    scenario.answers(AGAIN, busy);
    assert!(is_pending(&mut second), "it waits until its limit");
    scenario.passes(SECOND / 10);
    scenario.tick();
    assert!(is_timed_out(&mut second));
}

#[test]
fn a_server_that_does_not_answer_is_unavailable_a_moment_after_the_limit() {
    let mut scenario = Scenario::connected();
    let (_first, mut second) = two_waiters(&mut scenario);
    scenario.passes(SECOND);
    scenario.tick();
    scenario.passes(ALMOST_LATE);
    scenario.tick();
    assert!(is_pending(&mut second));
    scenario.passes(SECOND / 100);
    scenario.tick();
    assert!(is_unavailable(&mut second));
}

#[test]
fn an_answer_that_is_late_already_is_not_awaited() {
    let mut scenario = Scenario::connected();
    let (_first, mut second) = two_waiters(&mut scenario);
    scenario.table.changed(scenario.now, None);
    scenario.send();
    assert_eq!(scenario.sent.len(), 2, "after a flush, all waiters ask");
    scenario.passes(SECOND);
    scenario.tick();
    assert!(is_unavailable(&mut second));
}

#[test]
fn a_wait_shorter_than_an_answer_takes_is_one_try() {
    for (reply, takes) in
        [(Reply::Acquire(Verdict::Granted { fence: 7 }), true), (Scenario::connected().busy(0), false)]
    {
        let mut scenario = Scenario::connected();
        let (mut ask, mut outcome) = scenario.ask(Some(SECOND), None);
        ask.deadline.gives_up_at = Some(scenario.now.after(SECOND / 1_000));
        scenario.table.acquire(scenario.now, 1, ask, token_of(1));
        scenario.send();
        scenario.passes(ALMOST_LATE);
        scenario.tick();
        scenario.answers(JOIN, reply);
        assert_eq!(held(&mut outcome).is_some(), takes);
    }
}

#[test]
fn a_lock_that_is_free_at_the_limit_is_taken() {
    let mut scenario = Scenario::connected();
    let mut only = scenario.acquires(1, Some(SECOND));
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    scenario.passes(SECOND);
    scenario.tick();
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Claimed { fence: 7 }));
    assert!(held(&mut only).is_some());
}

/// The process was suspended, or the clock of a test was advanced.
#[test]
fn a_limit_that_is_long_over_is_no_reason_to_hear_no_answer() {
    let mut scenario = Scenario::connected();
    let (_first, mut second) = two_waiters(&mut scenario);
    scenario.passes(100 * SECOND);
    scenario.tick();
    assert!(is_pending(&mut second));
    let busy = scenario.busy(0);
    scenario.answers(AGAIN, busy);
    assert!(is_timed_out(&mut second));
}

/// The caller that has asked for both leaves.
#[test]
fn when_the_one_that_has_asked_leaves_the_next_one_asks() {
    let mut scenario = Scenario::connected();
    let (first, mut second) = two_waiters(&mut scenario);
    scenario.passes(SECOND);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(1, AGAIN)]);
    drop(first);
    scenario.abandons(1);
    assert_eq!(scenario.unanswered(), [(1, AGAIN), (1, Action::Release), (2, AGAIN)]);
    let busy = scenario.busy(0);
    scenario.answers(AGAIN, busy.clone());
    scenario.answers(Action::Release, Reply::NotHeld);
    assert!(is_pending(&mut second));
    scenario.answers(AGAIN, busy);
    assert!(is_timed_out(&mut second));
}

#[test]
fn a_holder_in_this_process_needs_no_answer() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let mut second = scenario.acquires(2, Some(SECOND));
    scenario.answers(JOIN, Reply::Acquire(Verdict::Busy { holder: Holder::default(), place: None }));
    scenario.passes(SECOND);
    scenario.table.tick(scenario.now);
    assert!(is_timed_out(&mut second));
}

#[test]
fn the_reason_of_a_refusal_is_told() {
    let mut scenario = Scenario::connected();
    let mut refused = scenario.acquires(1, Some(SECOND));
    scenario.answers(JOIN, Reply::Refused(Refusal::Transient("MISCONF no disk".into())));
    scenario.passes(SECOND);
    scenario.tick();
    scenario.passes(SECOND);
    scenario.tick();
    let Some(error) = failed(&mut refused) else { unreachable!("it is over") };
    assert!(error.to_string().contains("MISCONF no disk"), "{error}");
}

#[test]
fn the_reason_of_a_request_that_the_transport_repeats_is_told_at_the_limit() {
    let mut scenario = Scenario::connected();
    let mut waiting = scenario.acquires(1, Some(SECOND));
    scenario.passes(SECOND);
    scenario.table.delayed(scenario.now, 1, "CLUSTERDOWN".into());
    scenario.tick();
    let Some(error) = failed(&mut waiting) else { unreachable!("it is over") };
    assert!(error.to_string().contains("CLUSTERDOWN"), "{error}");
}

/// Each reply takes longer than the lock lasts.
fn granted_late(scenario: &mut Scenario, times: u32) {
    for nth in 0..times {
        scenario.passes(TTL);
        let expected = if nth == 0 { JOIN } else { JOIN_AGAIN };
        let Some((id, sent, request)) = scenario.next() else { unreachable!("it asks") };
        assert_eq!(request.action, expected);
        scenario.table.reply(scenario.now, id, sent, &request, Reply::Acquire(Verdict::Granted { fence: 1 }));
        scenario.send();
        scenario.answers(Action::Release, Reply::NotHeld);
    }
}

#[test]
fn a_ttl_that_is_over_when_each_answer_comes_is_an_error_that_names_it() {
    let mut scenario = Scenario::connected();
    let (mut ask, mut outcome) = scenario.ask(Some(SECOND), None);
    ask.deadline.gives_up_at = Some(scenario.now.after(100 * TTL));
    scenario.table.acquire(scenario.now, 1, ask, token_of(1));
    scenario.send();
    granted_late(&mut scenario, 3);
    let Some(error) = failed(&mut outcome) else { unreachable!("it is told") };
    assert!(
        matches!(&error, LockError::Misconfigured { reason, .. } if reason.contains("30.0 s")),
        "{error}"
    );
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_wait_without_a_limit_outlives_such_a_ttl_and_asks_less_often() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    granted_late(&mut scenario, 3);
    assert!(is_pending(&mut outcome));
    scenario.assert_quiet();
    scenario.passes(SECOND);
    scenario.tick();
    scenario.answers(JOIN_AGAIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
    assert!(held(&mut outcome).is_some());
}
