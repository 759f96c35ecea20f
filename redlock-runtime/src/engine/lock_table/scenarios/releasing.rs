//! Releases that are refused, repeated, or crossed by other replies.

use super::*;

#[test]
fn the_reply_to_a_renewal_is_not_the_reply_to_the_release_behind_it() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    scenario.passes(TTL / 2);
    scenario.tick();
    let mut released = scenario.releases(1);
    scenario.answers(RENEW, Reply::Done);
    assert!(released.try_recv().is_err(), "not yet");
    assert!(!scenario.table.is_idle());
    scenario.answers(Action::Release, Reply::NotHeld);
    assert_eq!(released.try_recv(), Ok(Ok(ReleaseOutcome::AlreadyLost)));
}

#[test]
fn a_release_whose_reply_was_lost_is_repeated_and_counts() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let mut released = scenario.releases(1);
    scenario.sent.clear();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    // The server had executed the first one.
    scenario.answers(Action::Release, Reply::NotHeld);
    assert_eq!(released.try_recv(), Ok(Ok(ReleaseOutcome::Released)));
}

#[test]
fn a_release_whose_reply_was_lost_with_a_node_of_a_cluster_counts() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let mut released = scenario.releases(1);
    scenario.answers(Action::Release, Reply::Refused(Refusal::OutcomeUnknown("the node is away".into())));
    scenario.passes(SECOND / 2);
    scenario.tick();
    // The node had executed the first one: the lock was not lost.
    scenario.answers(Action::Release, Reply::NotHeld);
    assert!(matches!(released.try_recv(), Ok(Ok(ReleaseOutcome::Released))));
}

#[test]
fn a_refused_release_is_reported_at_once_and_sent_less_and_less_often_until_the_ttl_is_over() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let mut released = scenario.releases(1);
    scenario.answers(Action::Release, Reply::Refused(Refusal::Permanent("NOPERM".into())));
    assert!(matches!(released.try_recv(), Ok(Err(LockError::Misconfigured { .. }))));
    let mut times = 0;
    while !scenario.table.is_idle() {
        scenario.passes(SECOND / 100);
        scenario.tick();
        if !scenario.sent.is_empty() {
            times += 1;
            scenario.answers(Action::Release, Reply::Refused(Refusal::Permanent("NOPERM".into())));
        }
    }
    assert!((15..=80).contains(&times), "{times} times in {TTL:?}");
    assert!(scenario.now.since(scenario.start) >= TTL);
}

#[test]
fn a_waiter_that_the_server_refuses_to_let_go_leaves_as_soon_as_it_may() {
    let mut scenario = Scenario::connected();
    let outcome = queued(1, &mut scenario);
    drop(outcome);
    scenario.abandons(1);
    let refused = || Reply::Refused(Refusal::Transient("MISCONF".into()));
    scenario.answers(Action::Release, refused());
    while scenario.now.since(scenario.start) < QUEUE_TTL {
        assert!(!scenario.table.is_idle());
        scenario.passes(SECOND / 100);
        scenario.tick();
        if !scenario.sent.is_empty() {
            scenario.answers(Action::Release, refused());
        }
    }
    assert!(scenario.table.is_idle(), "the queue has expired");
}

#[test]
fn a_push_to_a_waiter_that_has_left_sends_its_refused_release_at_once() {
    let mut scenario = Scenario::connected();
    let outcome = queued(1, &mut scenario);
    drop(outcome);
    scenario.abandons(1);
    scenario.answers(Action::Release, Reply::Refused(Refusal::Transient("MISCONF".into())));
    scenario.assert_quiet();
    let next = PushKind::Next { claim: CLAIM, at: scenario.server_time() };
    scenario.tells(1, next);
    scenario.answers(Action::Release, Reply::NotHeld);
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_release_that_a_server_refuses_is_reported_at_once_and_one_in_a_failover_is_waited_for() {
    for (refusal, is_told) in [
        ("MISCONF cannot save", true),
        ("LOADING the data", true),
        ("NOREPLICAS", true),
        ("CLUSTERDOWN", false),
        ("TRYAGAIN", false),
    ] {
        let mut scenario = Scenario::connected();
        let _lease = scenario.holds(1);
        let mut released = scenario.releases(1);
        scenario.answers(Action::Release, Reply::Refused(Refusal::Transient(refusal.into())));
        let told = released.try_recv();
        assert_eq!(matches!(&told, Ok(Err(LockError::Unavailable { .. }))), is_told, "{refusal}: {told:?}");
        scenario.passes(SECOND / 10);
        scenario.tick();
        scenario.answers(Action::Release, Reply::Done);
        assert!(scenario.table.is_idle(), "{refusal}");
        assert_eq!(matches!(released.try_recv(), Ok(Ok(ReleaseOutcome::Released))), !is_told, "{refusal}");
    }
}

#[test]
fn a_release_without_an_answer_is_reported_when_the_key_has_expired() {
    let mut scenario = Scenario::connected();
    scenario.table.cx.settings.io_timeout = 2 * TTL;
    let _lease = scenario.holds(1);
    let mut released = scenario.releases(1);
    scenario.passes(TTL);
    scenario.tick();
    assert!(matches!(released.try_recv(), Ok(Err(LockError::Unavailable { .. }))));
    assert!(scenario.table.is_idle());
}

/// A server that is frozen may execute what an earlier connection has sent when it goes on.
#[test]
fn a_waiter_that_leaves_without_a_connection_is_gone_from_the_queue_of_a_server_that_was_frozen() {
    let mut scenario = Scenario::connected();
    let _outcome = scenario.acquires(1, None);
    scenario.sent.clear();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.abandons(1);
    scenario.passes(TTL + SECOND);
    scenario.tick();
    scenario.connects();
    scenario.send();
    scenario.answers(Action::Release, Reply::NotHeld);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_call_that_was_only_refused_owes_no_release() {
    let transient = || Reply::Refused(Refusal::Transient("MISCONF".into()));
    let permanent = || Reply::Refused(Refusal::Permanent("OOM".into()));
    // One try; a wait that ends in the pause behind a refusal; one that ends with a request under
    // way, which is refused then.
    for refused in [transient, permanent] {
        let mut scenario = Scenario::connected();
        let _outcome = scenario.acquires(1, Some(Duration::ZERO));
        scenario.answers(Action::Acquire(Mode::OneTry), refused());
        scenario.assert_quiet();
        assert!(scenario.table.is_idle());
    }
    for is_under_way in [false, true] {
        let mut scenario = Scenario::connected();
        let _outcome = scenario.acquires(1, None);
        for action in [JOIN, JOIN_AGAIN] {
            scenario.answers(action, transient());
            scenario.passes(SECOND);
            scenario.tick();
        }
        if !is_under_way {
            scenario.answers(JOIN_AGAIN, transient());
        }
        scenario.abandons(1);
        if is_under_way {
            assert_eq!(scenario.unanswered(), [(1, JOIN_AGAIN), (1, Action::Release)]);
            scenario.answers(JOIN_AGAIN, transient());
            scenario.sent.clear();
        }
        scenario.assert_quiet();
        assert!(scenario.table.is_idle());
    }
}

#[test]
fn a_call_that_was_refused_after_an_answer_was_lost_owes_a_release() {
    let mut scenario = Scenario::connected();
    let _outcome = scenario.acquires(1, Some(SECOND));
    scenario.sent.clear();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    scenario.answers(JOIN_AGAIN, Reply::Refused(Refusal::Permanent("OOM".into())));
    scenario.answers(Action::Release, Reply::NotHeld);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_direct_request_that_found_another_value_is_no_request_that_may_have_taken_the_lock() {
    let mut scenario = Scenario::connected();
    let (mut ask, _outcome) = scenario.ask(Some(SECOND), None);
    ask.fenced = false;
    scenario.table.acquire(scenario.now, 1, ask, token_of(1));
    scenario.send();
    scenario.answers(JOIN, Reply::Refused(Refusal::Contended));
    scenario.answers(JOIN_AGAIN, Reply::Refused(Refusal::Permanent("OOM".into())));
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}
