//! Locks that are taken away, forged pushes, and answers that are out of date, by hand.

use super::*;
use crate::engine::command::{AdminCall, AdminOp};

#[test]
fn the_holder_of_ones_own_is_out_when_an_operator_takes_its_lock() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    let lease = held(&mut outcome);
    let mut waiter = queued(2, &mut scenario);
    let (caller, mut answer) = oneshot::channel();
    let op = AdminOp::ForceRelease { name: "lock:k".into(), caller };
    scenario.table.call(scenario.now, 9, AdminCall { key: None, op, by: scenario.now.after(SECOND) });
    scenario.send();
    assert!(lease.is_some_and(|lease| lease.ended().is_cancelled()));
    // In this order: its own release would leave nothing to tell of.
    let found = (Holder { name: Some("host:1".into()), expires_in: Some(TTL) }, 1);
    scenario.answers(Action::ForceRelease, Reply::Found(Some(found.clone())));
    scenario.answers(Action::Release, Reply::NotHeld);
    assert_eq!(answer.try_recv(), Ok(Ok(Some(found))));
    scenario.grants(2, scenario.server_time());
    assert!(held(&mut waiter).is_some());
}

#[test]
fn a_push_about_another_lock_is_dropped() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    let kind = PushKind::Granted { fence: 7, at: scenario.server_time() };
    let push = Push { token: Token::from_value("token 1"), name: "lock:other".into(), kind };
    scenario.table.on_push(scenario.now, &push);
    scenario.send();
    scenario.is_quiet();
    assert!(held(&mut outcome).is_none());
}

/// The grant is pushed, and the answer to a whole batch comes when its last one does.
#[test]
fn what_a_waiter_saw_says_nothing_of_a_lock_that_was_granted_since() {
    let mut scenario = Scenario::with(Abilities { hands_over: true, tracks_changes: true, votes: false });
    let mut outcome = scenario.acquires(1, None);
    let foreign = Holder { name: None, expires_in: None };
    let place = Some(Place { in_front: 0, at: scenario.server_time() });
    scenario.answers(JOIN, Reply::Busy { holder: foreign, place });
    scenario.grants(1, scenario.server_time());
    let lease = held(&mut outcome);
    for reply in [Reply::NotHeld, Reply::Free] {
        let request = Request {
            action: Action::WatchHolder,
            name: "lock:k".into(),
            token: Token::from_value("token 1"),
            ttl: TTL,
        };
        scenario.table.reply(scenario.now, 1, scenario.now, &request, reply);
    }
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now).is_some()));
}

#[test]
fn a_refused_release_is_told_at_once_and_sent_less_and_less_often_until_the_ttl_is_over() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    assert!(held(&mut outcome).is_some());
    let (response, mut released) = oneshot::channel();
    scenario.table.release(scenario.now, 1, Some(Response::to(response)));
    scenario.send();
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
fn a_release_that_the_server_cannot_do_now_is_told_at_once_and_one_in_a_failover_is_waited_for() {
    for (refusal, is_told) in [
        ("MISCONF cannot save", true),
        ("LOADING the data", true),
        ("NOREPLICAS", true),
        ("CLUSTERDOWN", false),
        ("TRYAGAIN", false),
    ] {
        let mut scenario = Scenario::connected();
        let mut outcome = scenario.acquires(1, None);
        scenario.answers(JOIN, Reply::Granted { fence: 1 });
        assert!(held(&mut outcome).is_some());
        let (response, mut released) = oneshot::channel();
        scenario.table.release(scenario.now, 1, Some(Response::to(response)));
        scenario.send();
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

/// Which of a Cluster's nodes answered is not known here, nor what the others can do.
#[test]
fn how_long_a_lock_lasts_is_what_its_answer_says() {
    for (hands_over, reply, lasts) in
        [(false, Reply::Claimed { fence: 1 }, CLAIM), (true, Reply::Granted { fence: 1 }, TTL)]
    {
        let mut scenario = Scenario::with(Abilities { hands_over, tracks_changes: false, votes: false });
        let mut outcome = queued(1, &mut scenario);
        scenario.passes(2 * SECOND);
        scenario.tick();
        scenario.answers(AGAIN, reply);
        let left = held(&mut outcome).and_then(|lease| lease.remaining(scenario.now));
        assert!(left.is_some_and(|left| left <= lasts && left > lasts / 2), "{left:?}");
    }
}

#[test]
fn waiters_that_wait_for_each_other_ask_when_all_nodes_hand_over() {
    let mut scenario = Scenario::with(Abilities { hands_over: false, tracks_changes: false, votes: false });
    let _first = scenario.acquires(1, None);
    let _second = scenario.acquires(2, None);
    scenario.answers(JOIN, Reply::Busy { holder: Holder::default(), place: None });
    scenario.is_quiet();
    scenario.table.can(scenario.now, Abilities { hands_over: true, tracks_changes: false, votes: false });
    scenario.send();
    assert!(matches!(scenario.sent.as_slice(), [(2, _, Request { action: JOIN, .. })]));
}
