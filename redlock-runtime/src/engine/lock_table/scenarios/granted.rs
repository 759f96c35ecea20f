//! Pushed grants: entered at once and claimed later, or confirmed first.

use super::*;
use crate::base::limit::Limit;

#[test]
fn a_grant_is_entered_at_once_and_claimed_later() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    scenario.passes(SECOND / 10);
    let at = scenario.server_time();
    scenario.grants(1, at);
    scenario.assert_quiet();
    let lease = held(&mut outcome);
    assert!(lease.as_ref().is_some_and(|lease| lease.remaining(scenario.now) <= Some(CLAIM)));
    scenario.passes(CLAIM / 2);
    scenario.tick();
    scenario.answers(RENEW, Reply::Done);
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now) > Some(TTL / 2)));
}

#[test]
fn a_body_that_is_quick_is_never_claimed() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    let at = scenario.server_time();
    scenario.grants(1, at);
    assert!(held(&mut outcome).is_some());
    scenario.drops_guard(1);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_grant_that_is_read_too_late_is_asked_about_and_not_entered() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    let at = scenario.server_time();
    scenario.passes(CLAIM);
    scenario.grants(1, at);
    assert!(held(&mut outcome).is_none());
    // Meanwhile the server has granted it to another waiter.
    let busy = scenario.busy(0);
    scenario.answers(AGAIN, busy);
    assert!(held(&mut outcome).is_none());
}

#[test]
fn a_server_whose_clock_was_set_back_is_not_believed() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    scenario.passes(SECOND / 10);
    scenario.grants(1, ServerTime(SERVER_START - 1));
    assert!(held(&mut outcome).is_none());
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Claimed { fence: 8 }));
    assert!(held(&mut outcome).is_some_and(|lease| lease.remaining(scenario.now) <= Some(CLAIM)));
}

#[test]
fn a_waiter_that_is_granted_a_lock_without_its_number_asks_for_one() {
    for limit in [Limit::ONE, Limit::of(5)] {
        let mut scenario = Scenario::connected();
        let (mut ask, mut outcome) = scenario.ask(None, None);
        ask.kind = Kind::of_limit(limit);
        scenario.table.acquire(scenario.now, 1, ask, token_of(1));
        scenario.send();
        let busy = scenario.busy(0);
        scenario.answers(JOIN, busy);
        let kind = PushKind::Granted { fence: 7, at: scenario.server_time(), marked: false };
        let (token, name) = (token_of(1), "lock:k".into());
        let push = Push { token, name, kind, followers: "".into(), is_undercut: true };
        scenario.table.on_push(scenario.now, &push);
        scenario.send();
        if limit.is_counted() {
            assert_eq!(held(&mut outcome).map(|lease| lease.fence()), Some(7), "its phase may be old");
            continue;
        }
        assert!(held(&mut outcome).is_none());
        // It may be below again.
        scenario.answers(AGAIN, Reply::Refused(Refusal::NoFence));
        scenario.answers(AGAIN, Reply::Acquire(Verdict::Claimed { fence: 9 }));
        assert_eq!(held(&mut outcome).map(|lease| lease.fence()), Some(9));
    }
}

#[test]
fn a_grant_that_no_attempt_waits_for_is_released() {
    for fence in [7, 0] {
        let mut scenario = Scenario::connected();
        let at = scenario.server_time();
        scenario.tells(9, PushKind::Granted { fence, at, marked: false });
        // The next one draws a fencing token only if it wants one: the release says whether this
        // one did.
        assert!(scenario.sent.iter().all(|(_, _, request)| request.fenced == (fence > 0)));
        scenario.answers(Action::Release, Reply::Done);
        assert!(scenario.table.is_idle());
    }
}

#[test]
fn a_grant_that_crosses_an_abandon_is_released_once() {
    let mut scenario = Scenario::connected();
    let outcome = queued(1, &mut scenario);
    drop(outcome);
    scenario.abandons(1);
    let at = scenario.server_time();
    scenario.grants(1, at);
    scenario.answers(Action::Release, Reply::Done);
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_grant_from_another_server_than_the_place_is_confirmed_first() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    let mut slots = Slots::none();
    slots.insert(Slot::of("lock:other"));
    scenario.table.returned(scenario.now, &slots);
    scenario.send();
    scenario.assert_quiet();
    slots.insert(Slot::of("lock:k"));
    scenario.table.returned(scenario.now, &slots);
    scenario.send();
    // Its clock is not that of the server that gave the place.
    scenario.grants(1, scenario.server_time());
    assert!(held(&mut outcome).is_none());
    scenario.answers(REJOIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    assert!(held(&mut outcome).is_some());
}

/// After a failover the next connection leads to a server with another clock, which may have the
/// queue, too.
#[test]
fn a_grant_over_the_next_connection_is_confirmed_first() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    scenario.grants(1, scenario.server_time());
    assert!(held(&mut outcome).is_none());
    scenario.answers(REJOIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    assert!(held(&mut outcome).is_some());
}

/// The release that is sent for a grant without a waiter would pass the lock on, and that of the
/// guard would find it lost.
#[test]
fn a_grant_that_is_told_after_its_lock_was_released_is_not_released_once_more() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    let at = scenario.server_time();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    scenario.answers(REJOIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    assert!(held(&mut outcome).is_some());
    scenario.drops_guard(1);
    scenario.grants(1, at);
    scenario.answers(Action::Release, Reply::Done);
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_push_about_another_lock_is_dropped() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    let kind = PushKind::Granted { fence: 7, at: scenario.server_time(), marked: false };
    let push = Push {
        token: Token::from_value("token 1"),
        name: "lock:other".into(),
        kind,
        followers: "".into(),
        is_undercut: false,
    };
    scenario.table.on_push(scenario.now, &push);
    scenario.send();
    scenario.assert_quiet();
    assert!(held(&mut outcome).is_none());
}

/// The table does not know which node of a Cluster answered, nor the abilities of each.
#[test]
fn the_reply_says_how_long_the_lock_lasts() {
    for (hands_over, reply, lasts) in [
        (false, Reply::Acquire(Verdict::Claimed { fence: 1 }), CLAIM),
        (true, Reply::Acquire(Verdict::Granted { fence: 1 }), TTL),
    ] {
        let mut scenario =
            Scenario::with(Abilities { hands_over, tracks_changes: false, votes: false, may_evict: false });
        let mut outcome = queued(1, &mut scenario);
        scenario.passes(2 * SECOND);
        scenario.tick();
        scenario.answers(AGAIN, reply);
        let left = held(&mut outcome).and_then(|lease| lease.remaining(scenario.now));
        assert!(left.is_some_and(|left| left <= lasts && left > lasts / 2), "{left:?}");
    }
}

#[test]
fn a_lock_that_is_not_renewed_lasts_for_its_ttl_from_its_grant_on() {
    let mut scenario = Scenario::connected();
    let (mut ask, mut outcome) = scenario.ask(None, None);
    ask.renew = false;
    scenario.table.acquire(scenario.now, 1, ask, token_of(1));
    scenario.send();
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    let granted = scenario.now;
    let at = scenario.server_time();
    scenario.grants(1, at);
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    // Its claim is renewed late, and refused once.
    scenario.passes(CLAIM / 3);
    scenario.tick();
    scenario.answers(RENEW, Reply::Refused(Refusal::Transient("BUSY".into())));
    scenario.passes(CLAIM / 3);
    scenario.sent.clear();
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.connects();
    scenario.send();
    let Some((id, sent, renewal)) = scenario.next() else { unreachable!("its claim is renewed") };
    assert_eq!((renewal.action, renewal.ttl), (RENEW, TTL.saturating_sub(scenario.now.since(granted))));
    scenario.table.reply(scenario.now, id, sent, &renewal, Reply::Done);
    let ends = lease.deadline().map(|deadline| deadline.since(granted));
    assert!(ends.is_some_and(|ends| ends <= TTL && ends > TTL * 9 / 10), "{ends:?}");
}
