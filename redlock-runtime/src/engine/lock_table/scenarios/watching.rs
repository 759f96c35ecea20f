//! Watches: the changes of a lock without a hand-over.

use super::*;

#[test]
fn without_hand_off_a_change_wakes_the_first_waiter() {
    let mut scenario = Scenario::with(TRACKS);
    let outcomes = [scenario.acquires(1, None), scenario.acquires(2, None)];
    let busy = || {
        Reply::Acquire(Verdict::Busy {
            holder: Holder { owner: Some(Owner::read("host:1")), expires_in: Some(TTL), ..Holder::default() },
            place: None,
        })
    };
    scenario.answers(JOIN, busy());
    scenario.answers(Action::WatchHolder, Reply::NotHeld);
    scenario.assert_quiet();
    scenario.passes(SECOND / 5);
    scenario.tick();
    scenario.assert_quiet();
    scenario.changes();
    assert!(matches!(scenario.sent.as_slice(), [(1, ..)]), "the first asks, and it alone");
    scenario.answers(JOIN_AGAIN, busy());
    // The lock became free before the watch began.
    scenario.answers(Action::WatchHolder, Reply::Free);
    scenario.answers(JOIN_AGAIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
    drop(outcomes);
}

#[test]
fn the_head_of_the_queue_watches_a_holder_of_another_kind() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let foreign = |in_front| {
        Reply::Acquire(Verdict::Busy {
            holder: Holder::default(),
            place: Some(Place { in_front, at: ServerTime(SERVER_START) }),
        })
    };
    let outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, foreign(1));
    scenario.assert_quiet();
    scenario.passes(2 * SECOND);
    scenario.tick();
    scenario.answers(AGAIN, foreign(0));
    scenario.answers(Action::WatchHolder, Reply::NotHeld);
    scenario.changes();
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
    drop(outcome);
}

/// Those in front may be dead.
#[test]
fn behind_a_holder_of_another_kind_whoever_has_waited_for_longer_watches() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let foreign = || {
        Reply::Acquire(Verdict::Busy {
            holder: Holder::default(),
            place: Some(Place { in_front: 99, at: ServerTime(SERVER_START) }),
        })
    };
    let outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, foreign());
    scenario.assert_quiet();
    scenario.passes(3 * SECOND);
    scenario.tick();
    scenario.answers(AGAIN, foreign());
    scenario.answers(Action::WatchHolder, Reply::NotHeld);
    scenario.passes(5 * SECOND);
    scenario.tick();
    scenario.assert_quiet();
    scenario.changes();
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
    drop(outcome);
}

/// No push tells it that the lock was deleted.
#[test]
fn a_waiter_far_behind_that_would_not_hear_of_a_change_asks_more_often() {
    for (abilities, asks) in [(HANDS_OVER, true), (HANDS_OVER_AND_TRACKS, false)] {
        let mut scenario = Scenario::with(abilities);
        let outcome = scenario.acquires(1, None);
        let busy = scenario.busy(99);
        scenario.answers(JOIN, busy);
        scenario.passes(3 * SECOND);
        scenario.tick();
        assert_eq!(scenario.unanswered() == [(1, AGAIN)], asks);
        drop(outcome);
    }
}

#[test]
fn a_node_that_does_not_watch_after_all_is_asked_more_often() {
    let mut scenario = Scenario::with(TRACKS);
    let outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Busy { holder: Holder::default(), place: None }));
    scenario.answers(Action::WatchHolder, Reply::Refused(Refusal::Permanent("NOPERM".into())));
    scenario.assert_quiet();
    scenario.passes(SECOND / 10);
    scenario.tick();
    assert_eq!(scenario.sent.len(), 1);
    drop(outcome);
}

/// Over a quorum the replies to two requests may cross: the first nodes decide one, the last node
/// the other.
#[test]
fn over_a_quorum_a_late_watch_reply_does_not_end_the_lease() {
    let mut scenario =
        Scenario::with(Abilities { hands_over: false, tracks_changes: true, votes: true, may_evict: false });
    let mut outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Busy { holder: Holder::default(), place: None }));
    let watch = scenario.next();
    scenario.changes();
    scenario.passes(SECOND / 10);
    scenario.tick();
    scenario.answers(JOIN_AGAIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
    let lease = held(&mut outcome);
    let Some((id, sent, request)) = watch else { unreachable!("a waiter watches") };
    scenario.table.reply(scenario.now, id, sent, &request, Reply::Free);
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now).is_some()));
    // The reply to its own watch ends it, and it is released on the nodes that still have it.
    scenario.watches(1);
    scenario.answers(Action::Watch, Reply::NotHeld);
    assert!(matches!(scenario.sent.as_slice(), [(1, _, Request { action: Action::Release, .. })]));
}

impl Scenario {
    fn watches(&mut self, id: Id) {
        self.table.at_attempt(self.now, id, |lock, cx| lock.watch(cx, id));
        self.send();
    }
}

/// No other caller has a quorum, so the nodes that still have the key keep others out.
#[test]
fn over_a_quorum_the_key_of_a_lock_that_too_few_nodes_have_stays_until_its_guard_is_dropped() {
    let by_votes = Abilities { tracks_changes: true, votes: true, ..NEITHER };
    for (asks, drops_in_time) in [(Action::Watch, true), (Action::Watch, false), (RENEW, true)] {
        let mut scenario = Scenario::with(by_votes);
        let lease = scenario.holds(1);
        let mut next = scenario.acquires(2, None);
        if asks == Action::Watch {
            scenario.watches(1);
        } else {
            scenario.passes(TTL / 3);
            scenario.tick();
            scenario.sent.retain(|(_, _, request)| request.action == asks);
        }
        scenario.answers(asks, Reply::Free);
        assert_eq!(lease.lost_reason(), Some(LostReason::KeyChanged), "its body is stopped at once");
        scenario.assert_quiet();
        // No other request for it is sent meanwhile.
        scenario.changes();
        scenario.passes(TTL / 3);
        scenario.tick();
        scenario.assert_quiet();
        if drops_in_time {
            scenario.drops_guard(1);
            scenario.answers(Action::Release, Reply::Done);
        } else {
            scenario.passes(TTL);
            scenario.tick();
        }
        let Some((2, sent, request)) = scenario.next() else { unreachable!("the next caller asks") };
        scenario.table.reply(scenario.now, 2, sent, &request, Reply::Acquire(Verdict::Granted { fence: 2 }));
        assert!(held(&mut next).is_some());
    }
}

/// The replies of a batch are read together, after the push.
#[test]
fn a_watch_reply_from_before_the_grant_does_not_end_the_lease() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let mut outcome = scenario.acquires(1, None);
    let foreign = Holder::default();
    let place = Some(Place { in_front: 0, at: scenario.server_time() });
    scenario.answers(JOIN, Reply::Acquire(Verdict::Busy { holder: foreign, place }));
    scenario.grants(1, scenario.server_time());
    let lease = held(&mut outcome);
    for reply in [Reply::NotHeld, Reply::Free] {
        let request = Request::new(Action::WatchHolder, "lock:k".into(), Token::from_value("token 1"), TTL);
        scenario.table.reply(scenario.now, 1, scenario.now, &request, reply);
    }
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now).is_some()));
}
