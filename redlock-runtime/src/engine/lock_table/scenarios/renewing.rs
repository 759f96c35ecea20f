//! Renewals, and leases whose holder changes the ttl.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use super::*;
use crate::engine::command::Extension;

type Extended = oneshot::Receiver<Result<(), LockError>>;

const HELD: Reply = Reply::HeldFor { left: TTL };

const HOUR: Duration = Duration::from_hours(1);

/// A renewal after so many changes of the ttl.
const fn renewal(nth: u32, shortens: bool) -> Action {
    Action::Renew { nth, shortens }
}

fn holder() -> (Scenario, Arc<Lease>) {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    (scenario, lease)
}

fn extends(scenario: &mut Scenario, ttl: Duration) -> Extended {
    let (caller, outcome) = oneshot::channel();
    scenario.table.on_command(scenario.now, Command::Extend { id: 1, extension: Extension { ttl, caller } });
    scenario.send();
    outcome
}

/// The time left to the lease, in whole seconds and rounded up.
fn lasts(scenario: &Scenario, lease: &Lease) -> u64 {
    lease.remaining(scenario.now).map_or(0, |left| left.as_secs() + 1)
}

#[test]
fn a_shorter_ttl_ends_the_lease_from_when_it_is_sent() {
    let (mut scenario, lease) = holder();
    let mut extended = extends(&mut scenario, SECOND);
    assert_eq!(lasts(&scenario, &lease), 1);
    assert!(extended.try_recv().is_err(), "the server has not answered");
    let mut end = pin!(lease.end_event());
    let mut wakes = || end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(!wakes());
    scenario.passes(SECOND);
    scenario.tick();
    assert!(wakes(), "a body that sleeps");
    assert!(extended.try_recv().is_err(), "it is dropped: the guard knows why");
}

#[test]
fn a_shorter_ttl_that_cannot_be_sent_changes_nothing() {
    let (mut scenario, lease) = holder();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    let mut extended = extends(&mut scenario, SECOND);
    assert_eq!(lasts(&scenario, &lease), 30);
    scenario.connects();
    scenario.send();
    assert_eq!(lasts(&scenario, &lease), 1);
    scenario.answers(renewal(1, true), Reply::Done);
    assert_eq!(extended.try_recv(), Ok(Ok(())));
}

#[test]
fn the_answer_to_a_longer_renewal_does_not_undo_a_shorter_one_behind_it() {
    let (mut scenario, lease) = holder();
    scenario.passes(TTL / 3);
    scenario.tick();
    let mut extended = extends(&mut scenario, SECOND);
    scenario.answers(RENEW, Reply::Done);
    assert_eq!(lasts(&scenario, &lease), 1);
    assert!(extended.try_recv().is_err());
    scenario.answers(renewal(1, true), Reply::Done);
    assert_eq!(extended.try_recv(), Ok(Ok(())));
    assert_eq!(lasts(&scenario, &lease), 1);
}

/// As over a quorum.
#[test]
fn a_reply_that_was_overtaken_changes_nothing() {
    let (mut scenario, lease) = holder();
    scenario.passes(TTL / 3);
    scenario.tick();
    let Some((id, sent, request)) = scenario.next() else { unreachable!("it is renewed") };
    let _extended = extends(&mut scenario, SECOND);
    scenario.answers(renewal(1, true), Reply::Done);
    scenario.table.reply(scenario.now, id, sent, &request, Reply::Done);
    assert_eq!(lasts(&scenario, &lease), 1);
}

#[test]
fn while_the_outcome_is_unknown_the_earliest_end_counts() {
    let (mut scenario, lease) = holder();
    let _extended = extends(&mut scenario, 3 * SECOND);
    scenario.passes(SECOND);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    assert_eq!(lasts(&scenario, &lease), 2);
    scenario.sent.remove(0);
    scenario.answers(renewal(1, true), Reply::Done);
    assert_eq!(lasts(&scenario, &lease), 3);
}

#[test]
fn a_longer_ttl_behind_a_shorter_one_counts_when_it_is_confirmed() {
    let (mut scenario, lease) = holder();
    let mut shorter = extends(&mut scenario, SECOND);
    let mut longer = extends(&mut scenario, 20 * SECOND);
    scenario.answers(renewal(1, true), Reply::Done);
    assert_eq!((lasts(&scenario, &lease), shorter.try_recv()), (1, Ok(Ok(()))));
    // The server may not have executed the first one: then this one must shorten, too.
    scenario.answers(renewal(2, true), Reply::Done);
    assert_eq!((lasts(&scenario, &lease), longer.try_recv()), (20, Ok(Ok(()))));
    let mut longest = extends(&mut scenario, 2 * TTL);
    scenario.answers(renewal(3, false), Reply::Done);
    assert_eq!((lasts(&scenario, &lease), longest.try_recv()), (60, Ok(Ok(()))));
}

#[test]
fn a_refused_renewal_is_sent_again_soon() {
    let (mut scenario, lease) = holder();
    for refusal in [Refusal::Transient("NOREPLICAS".into()), Refusal::Permanent("NOPERM".into())] {
        scenario.passes(TTL / 3);
        scenario.tick();
        scenario.answers(RENEW, Reply::Refused(refusal));
        scenario.assert_quiet();
        scenario.passes(SECOND);
        scenario.tick();
        scenario.answers(RENEW, Reply::Done);
        assert_eq!(lasts(&scenario, &lease), 30);
    }
}

#[test]
fn a_release_that_is_refused_after_a_shorter_ttl_is_repeated_until_the_longer_one_is_over() {
    let (mut scenario, _lease) = holder();
    scenario.passes(SECOND);
    let _extended = extends(&mut scenario, SECOND);
    scenario.drops_guard(1);
    scenario.sent.remove(0);
    let refused = || Reply::Refused(Refusal::Transient("MISCONF".into()));
    scenario.answers(Action::Release, refused());
    let ends = scenario.now.after(TTL);
    while !scenario.table.is_idle() {
        scenario.passes(SECOND / 10);
        scenario.tick();
        if !scenario.sent.is_empty() {
            scenario.answers(Action::Release, refused());
        }
    }
    assert!(scenario.now >= ends, "after {:?}", scenario.now.since(scenario.start));
}

/// A lock that is held and watched, and whose last renewal is some time ago.
fn watched(scenario: &mut Scenario) -> Arc<Lease> {
    let lease = scenario.holds(1);
    scenario.passes(SECOND);
    scenario.tick();
    scenario.answers(Action::Watch, HELD);
    scenario.assert_quiet();
    lease
}

#[test]
fn a_key_that_expires_before_its_lease_is_repaired_at_once() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let _lease = watched(&mut scenario);
    scenario.changes();
    scenario.answers(Action::Watch, Reply::HeldFor { left: SECOND });
    assert_eq!(scenario.unanswered(), [(1, RENEW), (1, Action::Watch)]);
    scenario.answers(RENEW, Reply::Done);
    scenario.answers(Action::Watch, HELD);
    scenario.assert_quiet();
}

/// A mark, a longer expiry of another client, or, on Redis 6.2, a renewal of its own.
#[test]
fn a_change_after_which_the_key_outlasts_its_lease_is_not_repaired() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let lease = watched(&mut scenario);
    let left = lease.remaining(scenario.now).unwrap_or_default();
    for left in [left, HOUR] {
        scenario.changes();
        scenario.answers(Action::Watch, Reply::HeldFor { left });
        scenario.assert_quiet();
    }
    scenario.passes(SECOND);
    scenario.tick();
    scenario.assert_quiet();
}

#[test]
fn a_repair_that_is_refused_is_sent_again_after_a_pause() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let _lease = watched(&mut scenario);
    scenario.changes();
    scenario.answers(Action::Watch, Reply::HeldFor { left: SECOND });
    scenario.answers(RENEW, Reply::Refused(Refusal::Transient("OOM".into())));
    scenario.answers(Action::Watch, Reply::HeldFor { left: SECOND });
    scenario.assert_quiet();
    scenario.passes(SECOND / 10);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(1, RENEW), (1, Action::Watch)]);
}

#[test]
fn a_lock_that_changes_all_the_time_is_not_renewed_all_the_time() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let _lease = watched(&mut scenario);
    let mut renewals = 0;
    for _ in 0..1000 {
        scenario.passes(SECOND / 1000);
        scenario.changes();
        scenario.tick();
        while let Some((id, sent, request)) = scenario.next() {
            renewals += u32::from(request.action == RENEW);
            let shortened = Reply::HeldFor { left: SECOND };
            let reply = if request.action == Action::Watch { shortened } else { Reply::Done };
            scenario.table.reply(scenario.now, id, sent, &request, reply);
            scenario.send();
        }
    }
    assert!((9..=11).contains(&renewals), "{renewals} in a second");
}

#[test]
fn a_ttl_that_is_not_confirmed_in_time_is_an_error_and_goes_along_with_the_next_renewals() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let ends = lease.deadline();
    let mut outcome = extends(&mut scenario, 10 * TTL);
    scenario.passes(SECOND);
    scenario.tick();
    assert!(matches!(outcome.try_recv(), Ok(Err(LockError::Unavailable { .. }))));
    assert_eq!(lease.deadline(), ends, "what was confirmed counts");
    let Some((_, sent, renewal)) = scenario.next() else { unreachable!("it was sent") };
    assert_eq!(renewal.ttl, 10 * TTL);
    scenario.table.reply(scenario.now, 1, sent, &renewal, Reply::Done);
    assert!(lease.deadline() > ends, "a late confirmation counts, too");
}

#[test]
fn a_shorter_ttl_that_is_not_confirmed_in_time_counts_all_the_same() {
    let mut scenario = Scenario::connected();
    let lease = scenario.holds(1);
    let mut outcome = extends(&mut scenario, TTL / 3);
    scenario.passes(SECOND);
    scenario.tick();
    assert!(matches!(outcome.try_recv(), Ok(Err(LockError::Unavailable { .. }))));
    assert!(lease.remaining(scenario.now).is_some_and(|left| left < TTL / 3));
}

#[test]
fn the_reason_for_which_a_ttl_is_not_confirmed_is_told() {
    let mut scenario = Scenario::connected();
    let _lease = scenario.holds(1);
    let mut outcome = extends(&mut scenario, 10 * TTL);
    let action = Action::Renew { nth: 1, shortens: false };
    scenario.answers(action, Reply::Refused(Refusal::Transient("MISCONF no disk".into())));
    scenario.passes(SECOND);
    scenario.tick();
    let Ok(Err(error)) = outcome.try_recv() else { unreachable!("it is over") };
    assert!(error.to_string().contains("MISCONF no disk"), "{error}");
}

/// A leader whose body may give no sign of life for a third of its ttl and a second more.
fn leader() -> (Scenario, Arc<Lease>) {
    let (scenario, lease) = holder();
    lease.set_led(scenario.now, TTL / 3 + SECOND);
    (scenario, lease)
}

fn beats(scenario: &Scenario, lease: &Lease) {
    if let Some(heartbeat) = lease.heartbeat() {
        heartbeat.beat(scenario.now);
    }
}

/// Until the engine renews, for a ttl at most.
fn renews_within(scenario: &mut Scenario, limit: Duration) -> Option<Duration> {
    let start = scenario.now;
    while scenario.now.since(start) < limit {
        scenario.passes(SECOND);
        scenario.tick();
        let sent = std::mem::take(&mut scenario.sent);
        if sent.iter().any(|(_, _, request)| request.action == RENEW) {
            return Some(scenario.now.since(start));
        }
    }
    None
}

#[test]
fn a_leader_whose_body_is_blocked_is_not_renewed_and_loses_its_lock() {
    let (mut scenario, lease) = leader();
    scenario.passes(TTL / 3);
    scenario.tick();
    scenario.answers(RENEW, Reply::Done);
    let ends = lease.deadline();
    assert_eq!(renews_within(&mut scenario, TTL), None);
    assert_eq!(lease.lost_reason(), Some(LostReason::Blocked));
    assert!(ends.is_some_and(|ends| ends <= scenario.now), "its last renewal has given it one ttl");
}

#[test]
fn a_leader_whose_body_runs_again_in_time_is_renewed_soon() {
    let (mut scenario, lease) = leader();
    scenario.passes(TTL / 3);
    scenario.tick();
    scenario.answers(RENEW, Reply::Done);
    assert_eq!(renews_within(&mut scenario, TTL / 2), None);
    beats(&scenario, &lease);
    let after = renews_within(&mut scenario, TTL);
    assert!(after.is_some_and(|after| after <= 2 * SECOND), "{after:?}");
    assert_eq!(lease.lost_reason(), None);
}

#[test]
fn a_leader_that_is_cut_off_while_its_body_is_blocked_is_not_renewed_over_the_next_connection() {
    let (mut scenario, lease) = leader();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.passes(TTL / 2);
    scenario.connects();
    scenario.send();
    assert!(!scenario.unanswered().iter().any(|(_, action)| *action == RENEW), "{:?}", scenario.unanswered());
    scenario.sent.clear();
    beats(&scenario, &lease);
    assert!(renews_within(&mut scenario, TTL / 3).is_some());
}

#[test]
fn a_body_that_changes_its_ttl_is_not_blocked() {
    let (mut scenario, _lease) = leader();
    scenario.passes(TTL / 2);
    let _extended = extends(&mut scenario, 10 * TTL);
    scenario.answers(renewal(1, false), Reply::Done);
}

#[test]
fn the_next_holder_of_the_lock_of_a_leader_is_no_leader() {
    let (scenario, lease) = leader();
    assert!(lease.heartbeat().is_some());
    drop(scenario);
    let (mut scenario, lease) = holder();
    assert!(lease.heartbeat().is_none());
    assert!(renews_within(&mut scenario, TTL).is_some(), "a lock without a leader needs no sign of life");
}
