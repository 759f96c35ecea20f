//! Leases that end without their guard: no connection, an operator, a reply that is out of date.

use super::*;
use crate::engine::command::Extension;
use crate::engine::protocol::Inspection;

#[test]
fn after_a_reconnect_waiters_ask_again_and_holders_compare() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let mut waiter = queued(2, &mut scenario);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.assert_quiet();
    scenario.connects();
    scenario.send();
    scenario.answers(RENEW, Reply::NotHeld);
    assert!(lease.remaining(scenario.now).is_none(), "it was gone: lost");
    scenario.answers(REJOIN, Reply::Acquire(Verdict::Granted { fence: 2 }));
    assert!(held(&mut waiter).is_some());
}

#[test]
fn a_lease_ends_when_no_renewal_is_answered() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.passes(TTL);
    scenario.tick();
    assert!(lease.lost_reason().is_some());
    // Connected again too late: it is released, not renewed.
    scenario.connects();
    scenario.send();
    scenario.answers(Action::Release, Reply::NotHeld);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_force_release_ends_the_lease_of_a_holder_in_this_process() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let mut waiter = queued(2, &mut scenario);
    let mut answer = scenario.calls(9, Action::ForceRelease, "lock:k");
    assert!(lease.lost_reason().is_some());
    // The call goes first: after its own release there would be no holder to report.
    let holder = Holder { owner: Some(Owner::read("host:1")), expires_in: Some(TTL), ..Holder::default() };
    let found = Inspection {
        holder,
        value: Token::empty(),
        waiters: 1,
        queue: vec![None],
        record: None,
        counted: None,
    };
    scenario.answers(Action::ForceRelease, Reply::Found(Some(found.clone())));
    scenario.answers(Action::Release, Reply::NotHeld);
    assert_eq!(answer.try_recv(), Ok(Ok(Reply::Found(Some(found)))));
    scenario.grants(2, scenario.server_time());
    assert!(held(&mut waiter).is_some());
}

/// Another one has had the lock since, or had it before.
#[test]
fn a_force_release_that_names_another_holder_ends_no_lease() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let names = [&b"AAAAAAAAAAAAAAAAAAAAAA@host:1"[..], b"%holders|7", b"stranger"];
    for (id, name) in (9..).zip(names) {
        let request = Request::new(Action::ForceRelease, "lock:k".into(), Token::naming(name), TTL);
        let _answer = scenario.calls_with(id, request);
        scenario.answers(Action::ForceRelease, Reply::Found(None));
    }
    assert_eq!(lease.lost_reason(), None);
    scenario.assert_quiet();
}

/// Its request as a waiter crossed the push of its grant, and found the lock taken away already: it
/// has a place in the queue.
#[test]
fn a_holder_that_has_a_place_behind_its_lost_lock_leaves_the_queue() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    scenario.passes(2 * SECOND);
    scenario.tick();
    let at = scenario.server_time();
    scenario.grants(1, at);
    let lease = held(&mut outcome);
    let place = scenario.busy(3);
    scenario.answers(AGAIN, place);
    scenario.passes(SECOND * 9 / 10);
    scenario.tick();
    scenario.answers(RENEW, Reply::NotHeld);
    assert!(lease.is_some_and(|lease| lease.lost_reason().is_some()));
    assert_eq!(scenario.unanswered(), [(1, Action::Release)]);
}

/// The ttl is part of its place, also when the lock has another one by then.
#[test]
fn a_holder_leaves_the_queue_with_the_ttl_of_its_place() {
    let mut scenario = Scenario::connected();
    let outcome = queued(1, &mut scenario);
    scenario.passes(2 * SECOND);
    scenario.tick();
    scenario.grants(1, scenario.server_time());
    let (caller, _extended) = oneshot::channel();
    scenario
        .table
        .on_command(scenario.now, Command::Extend { id: 1, extension: Extension { ttl: 2 * TTL, caller } });
    scenario.send();
    let place = scenario.busy(3);
    scenario.answers(AGAIN, place);
    scenario.answers(Action::Renew { nth: 1, shortens: false }, Reply::NotHeld);
    let released = scenario.next().map(|(_, _, request)| (request.action, request.ttl));
    assert_eq!(released, Some((Action::Release, TTL)));
    drop(outcome);
}

#[test]
fn a_holder_whose_key_was_to_stay_leaves_the_queue_when_it_has_lost_that() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    scenario.passes(2 * SECOND);
    scenario.tick();
    scenario.grants(1, scenario.server_time());
    assert!(held(&mut outcome).is_some());
    let place = scenario.busy(3);
    scenario.answers(AGAIN, place);
    let mut released = scenario.hands_over(1);
    scenario.answers(Action::ExpireLater, Reply::NotHeld);
    let outcome = released.try_recv().map(|released| released.outcome);
    assert!(matches!(outcome, Ok(Ok(ReleaseOutcome::AlreadyLost))));
    scenario.answers(Action::Release, Reply::NotHeld);
    assert!(scenario.table.is_idle());
}
