//! Hand-overs within the process.

use super::*;

const RESERVE: Action = Action::Reserve { count: 3 };

/// A holder with so many local waiters, which have not asked the server.
fn with_waiters(of: Id) -> (Scenario, Vec<Outcome>) {
    let mut scenario = Scenario::connected();
    scenario.table.cx.settings.cohort = 3;
    let mut outcomes: Vec<_> = (0..=of).map(|id| scenario.acquires(id, None)).collect();
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    assert!(held(&mut outcomes.remove(0)).is_some());
    (scenario, outcomes)
}

#[test]
fn a_lock_is_handed_over_locally_once_for_each_reserved_fencing_token() {
    let (mut scenario, mut outcomes) = with_waiters(5);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    for (id, fence) in [(0, 40), (1, 41), (2, 42)] {
        scenario.drops_guard(id);
        let lease = held(&mut outcomes.remove(0)).map(|lease| lease.fence());
        assert_eq!(lease, Some(fence));
        scenario.assert_quiet();
    }
    scenario.drops_guard(3);
    scenario.answers(Action::Release, Reply::Done);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 43 }));
    assert_eq!(held(&mut outcomes.remove(0)).map(|lease| lease.fence()), Some(43));
}

#[test]
fn a_release_before_the_reservation_is_answered_waits_for_it() {
    let (mut scenario, mut outcomes) = with_waiters(2);
    scenario.drops_guard(0);
    assert!(held(&mut outcomes[0]).is_none());
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    assert_eq!(held(&mut outcomes[0]).map(|lease| lease.fence()), Some(40));
    scenario.assert_quiet();
}

#[test]
fn without_reserved_fencing_tokens_the_lock_is_released() {
    let (mut scenario, mut outcomes) = with_waiters(2);
    scenario.drops_guard(0);
    scenario.answers(RESERVE, Reply::NotHeld);
    scenario.answers(Action::Release, Reply::NotHeld);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 9 }));
    assert_eq!(held(&mut outcomes[0]).map(|lease| lease.fence()), Some(9));
}

#[test]
fn a_reservation_without_a_reply_delays_the_release_only_briefly() {
    let (mut scenario, mut outcomes) = with_waiters(2);
    scenario.drops_guard(0);
    assert_eq!(scenario.next().map(|(_, _, request)| request.action), Some(RESERVE));
    scenario.passes(SECOND / 5);
    scenario.tick();
    scenario.answers(Action::Release, Reply::Done);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 9 }));
    assert_eq!(held(&mut outcomes[0]).map(|lease| lease.fence()), Some(9));
}

#[test]
fn a_renewal_reply_is_about_the_current_local_holder() {
    let (mut scenario, mut outcomes) = with_waiters(2);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    scenario.passes(TTL / 3);
    scenario.tick();
    scenario.drops_guard(0);
    let second = held(&mut outcomes[0]);
    assert!(second.as_ref().is_some_and(|lease| lease.remaining(scenario.now).is_some()));
    scenario.answers(RENEW, Reply::NotHeld);
    assert!(second.is_some_and(|lease| lease.remaining(scenario.now).is_none()), "it is lost");
}

#[test]
fn without_a_connection_there_is_no_local_hand_over() {
    let (mut scenario, mut outcomes) = with_waiters(2);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    scenario.table.disconnected(scenario.now, "gone".into(), &[]);
    scenario.drops_guard(0);
    assert!(held(&mut outcomes[0]).is_none());
    scenario.connects();
    scenario.send();
    scenario.answers(Action::Release, Reply::Done);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 43 }));
    assert!(held(&mut outcomes[0]).is_some());
}

#[test]
fn a_lease_that_is_nearly_over_is_not_handed_over_locally() {
    let (mut scenario, mut outcomes) = with_waiters(2);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    scenario.passes(TTL * 2 / 3);
    scenario.drops_guard(0);
    assert!(held(&mut outcomes[0]).is_none());
    scenario.answers(Action::Release, Reply::Done);
}

#[test]
fn a_waiter_that_has_gone_does_not_delay_the_release() {
    let (mut scenario, _) = with_waiters(0);
    drop(scenario.acquires_for(1, None, Some(SECOND)));
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    scenario.drops_guard(0);
    // Released without its `min_hold`.
    scenario.answers(Action::Release, Reply::Done);
    let mut next = scenario.acquires(2, None);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 43 }));
    assert!(held(&mut next).is_some());
}

#[test]
fn when_the_waiter_with_the_place_leaves_the_next_one_joins_at_once() {
    let mut scenario = Scenario::connected();
    scenario.table.cx.settings.cohort = 3;
    let _outcomes = [scenario.acquires(1, None), scenario.acquires(2, None)];
    let busy = scenario.busy(9);
    scenario.answers(JOIN, busy);
    scenario.assert_quiet();
    scenario.abandons(1);
    scenario.answers(Action::Release, Reply::NotHeld);
    let busy = scenario.busy(9);
    scenario.answers(JOIN, busy);
    scenario.assert_quiet();
}

#[test]
fn a_waiter_whose_wait_ends_when_it_first_asks_hears_the_answer() {
    let (mut scenario, _) = with_waiters(0);
    let mut waiter = scenario.acquires(1, Some(SECOND));
    scenario.answers(RESERVE, Reply::NotHeld);
    scenario.passes(SECOND * 9 / 10);
    scenario.drops_guard(0);
    scenario.answers(Action::Release, Reply::Done);
    scenario.passes(SECOND / 10);
    scenario.tick();
    assert_eq!(waiter.try_recv().err(), Some(TryRecvError::Empty));
    let busy = scenario.busy(9);
    scenario.answers(JOIN, busy);
    assert!(matches!(failed(&mut waiter), Some(LockError::TimedOut { .. })));
}

#[test]
fn the_server_is_told_every_50_ms_who_of_a_cohort_has_the_lock() {
    const NAMED_AFTER: Duration = Duration::from_millis(50);
    let (mut scenario, mut outcomes) = with_waiters(5);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    scenario.drops_guard(0);
    // It counts from the first hand-over that the server does not know of, however many follow.
    scenario.passes(NAMED_AFTER / 2);
    scenario.drops_guard(1);
    scenario.tick();
    scenario.assert_quiet();
    scenario.passes(NAMED_AFTER / 2);
    scenario.tick();
    let Some((id, sent, told)) = scenario.next() else { unreachable!("nothing was sent") };
    assert_eq!((told.action, &told.token, told.other_tokens()), (RENEW, &token_of(0), &[token_of(2)][..]));
    assert!(matches!(&told.kind, Kind::PassedOn(passed_on) if passed_on.place_ttl.is_none()));
    // Unanswered, the lock is passed on all the same.
    scenario.drops_guard(2);
    scenario.table.reply(scenario.now, id, sent, &told, Reply::Done);
    scenario.passes(NAMED_AFTER);
    scenario.tick();
    let Some((_, _, again)) = scenario.next() else { unreachable!("nothing was sent") };
    assert_eq!((&again.token, again.other_tokens()), (&token_of(2), &[token_of(3)][..]));
    // A release names what the server may have.
    scenario.drops_guard(3);
    assert!(outcomes.drain(..3).all(|mut outcome| held(&mut outcome).is_some()));
    let Some((_, _, release)) = scenario.next() else { unreachable!("nothing was sent") };
    assert_eq!(
        (release.action, &release.token, release.other_tokens()),
        (Action::Release, &token_of(2), &[token_of(3)][..])
    );
    assert!(!release.is_direct());
}

#[test]
fn an_answer_counts_that_comes_when_a_later_request_has_named_another_holder() {
    let (mut scenario, mut outcomes) = with_waiters(3);
    scenario.answers(RESERVE, Reply::Reserved { last: 42 });
    let mut told = Vec::new();
    for holder in [0, 1] {
        scenario.drops_guard(holder);
        scenario.passes(SECOND / 20);
        scenario.tick();
        told.extend(scenario.next());
    }
    let lease = outcomes.drain(..2).filter_map(|mut outcome| held(&mut outcome)).next_back();
    for (id, sent, request) in told {
        scenario.table.reply(scenario.now, id, sent, &request, Reply::Done);
        scenario.send();
    }
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now).is_some()));
    scenario.drops_guard(2);
    assert!(held(&mut outcomes[0]).is_some());
    scenario.table.cx.settings.cohort = 0;
    scenario.drops_guard(3);
    let Some((_, _, release)) = scenario.next() else { unreachable!("nothing was sent") };
    assert_eq!((&release.token, release.other_tokens()), (&token_of(2), &[][..]));
}

#[test]
fn a_holder_that_another_attempt_has_replaced_passes_nothing_on() {
    let (mut scenario, _outcomes) = with_waiters(1);
    let reserve = scenario.next().map(|(_, _, request)| request.action);
    assert_eq!(reserve, Some(RESERVE));
    // The lock was taken away, and a call with one try has got it before the holder learns of
    // that.
    let mut other = scenario.acquires(9, Some(Duration::ZERO));
    scenario.answers(Action::Acquire(Mode::OneTry), Reply::Acquire(Verdict::Granted { fence: 8 }));
    assert!(held(&mut other).is_some());
    scenario.drops_guard(0);
    scenario.drops_guard(9);
    scenario.answers(RESERVE, Reply::NotHeld);
    let expected = [(0, Action::Release), (9, Action::Release), (1, JOIN)];
    assert_eq!(scenario.unanswered(), expected, "the waiter asks when the last holder has left");
}
