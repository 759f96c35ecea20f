//! No waiter is forgotten: pushes that overtake a reply, and places in the queue that are lost.

use super::*;

/// The first waiter is queued, and a push to the second one overtakes the reply with its place.
fn with_early_push(kind: PushKind) -> (Scenario, Outcome) {
    let mut scenario = Scenario::connected();
    let _first = queued(1, &mut scenario);
    let outcome = scenario.acquires(2, None);
    scenario.tells(2, kind);
    assert_eq!(scenario.sent.len(), 1, "nothing but its ask");
    let busy = scenario.busy(1);
    scenario.answers(JOIN, busy);
    (scenario, outcome)
}

#[test]
fn a_grant_that_overtakes_the_reply_is_entered_with_it() {
    let (scenario, mut outcome) =
        with_early_push(PushKind::Granted { fence: 7, at: ServerTime(SERVER_START), marked: false });
    let lease = held(&mut outcome);
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now) > Some(CLAIM / 2)));
    scenario.assert_quiet();
}

#[test]
fn a_grant_that_overtakes_the_reply_and_is_over_is_asked_about() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    let at = scenario.server_time();
    scenario.tells(1, PushKind::Granted { fence: 7, at, marked: false });
    let place = scenario.busy(1);
    scenario.passes(CLAIM);
    scenario.answers(JOIN, place);
    assert!(held(&mut outcome).is_none());
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Granted { fence: 8 }));
    assert!(held(&mut outcome).is_some());
}

#[test]
fn a_hint_that_overtakes_the_reply_counts_after_it() {
    for (kind, by) in [
        (PushKind::Next { claim: CLAIM, at: ServerTime(SERVER_START) }, CLAIM + SECOND / 100),
        (PushKind::LeftFree, SECOND / 100),
    ] {
        let mut scenario = Scenario::connected();
        let _outcome = scenario.acquires(1, None);
        scenario.tells(1, kind);
        let busy = scenario.busy(0);
        scenario.answers(JOIN, busy);
        scenario.passes(by);
        scenario.tick();
        assert_eq!(scenario.unanswered(), [(1, AGAIN)], "{kind:?}");
    }
}

/// The server executed the request, and dropped the waiters of this process; the client reads the
/// push first.
#[test]
fn a_waiter_that_hears_of_its_lost_place_before_the_answer_asks_behind_it() {
    let mut scenario = Scenario::connected();
    let _first = queued(1, &mut scenario);
    let _second = scenario.acquires(2, None);
    let busy = scenario.busy(1);
    let (token, kind) = (Token::empty(), PushKind::PlaceLost);
    let push = Push { token, name: "lock:k".into(), kind, followers: "".into(), is_undercut: false };
    scenario.table.on_push(scenario.now, &push);
    scenario.send();
    scenario.answers(JOIN, busy);
    assert_eq!(scenario.unanswered(), [(1, REJOIN), (2, REJOIN)]);
}

/// Its request was executed late: the server does not know that it has gone.
#[test]
fn a_hint_to_a_caller_that_has_gone_is_one_to_the_first_that_is_left() {
    let mut scenario = Scenario::connected();
    let _outcome = queued(1, &mut scenario);
    scenario.tells(2, PushKind::LeftFree);
    scenario.passes(SECOND / 100);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(1, AGAIN)]);
}

#[test]
fn a_caller_that_leaves_after_an_early_grant_releases_it_once() {
    let mut scenario = Scenario::connected();
    drop(scenario.acquires(1, None));
    let at = scenario.server_time();
    scenario.grants(1, at);
    scenario.abandons(1);
    scenario.grants(1, at);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    scenario.answers(Action::Release, Reply::Done);
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
    assert!(!scenario.table.cx.attempts.expect_any());
}

#[test]
fn a_push_behind_the_reply_of_the_same_grant_changes_nothing() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    scenario.passes(2 * SECOND);
    scenario.tick();
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    let lease = held(&mut outcome);
    let at = scenario.server_time();
    scenario.grants(1, at);
    scenario.assert_quiet();
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now).is_some()));
}

#[test]
fn when_a_waiter_has_lost_its_place_all_of_its_process_ask_once_and_in_order() {
    let mut scenario = Scenario::connected();
    let outcomes: Vec<_> = (1..=4).map(|id| queued(id, &mut scenario)).collect();
    scenario.passes(2 * SECOND);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(1, AGAIN)]);
    scenario.tells(1, PushKind::PlaceLost);
    let busy = || {
        Reply::Acquire(Verdict::Busy {
            holder: Holder { owner: Some(Owner::read("host:1")), expires_in: Some(TTL), ..Holder::default() },
            place: Some(Place { in_front: 0, at: ServerTime(SERVER_START) }),
        })
    };
    scenario.answers(AGAIN, busy());
    assert_eq!(scenario.unanswered(), [(2, REJOIN), (3, REJOIN), (4, REJOIN)]);
    for _ in 2..=4 {
        scenario.answers(REJOIN, busy());
    }
    scenario.assert_quiet();
    drop(outcomes);
}

#[test]
fn when_a_waiter_without_a_place_gets_the_lock_all_others_ask() {
    let mut scenario = Scenario::connected();
    let mut outcomes: Vec<_> = (1..=3).map(|id| queued(id, &mut scenario)).collect();
    scenario.passes(2 * SECOND);
    scenario.tick();
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    assert!(held(&mut outcomes[0]).is_some());
    scenario.tells(1, PushKind::PlaceLost);
    assert_eq!(scenario.unanswered(), [(2, REJOIN), (3, REJOIN)]);
}

#[test]
fn after_a_flush_all_waiters_ask_in_order() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let outcomes: Vec<_> = (1..=3).map(|id| queued(id, &mut scenario)).collect();
    scenario.table.changed(scenario.now, None);
    scenario.send();
    assert_eq!(scenario.unanswered(), [(1, REJOIN), (2, REJOIN), (3, REJOIN)]);
    drop(outcomes);
}

#[test]
fn the_first_waiter_of_a_process_confirms_its_place_from_time_to_time() {
    let mut scenario = Scenario::connected();
    let mut outcomes: Vec<_> = (1..=3).map(|id| queued(id, &mut scenario)).collect();
    let at = scenario.server_time();
    scenario.grants(1, at);
    assert!(held(&mut outcomes[0]).is_some());
    scenario.passes(SECOND * 9 / 10);
    scenario.tick();
    let asked = scenario.sent.extract_if(.., |(_, _, request)| request.action == AGAIN);
    assert_eq!(asked.map(|(id, ..)| id).collect::<Vec<_>>(), [2]);
    scenario.answers(RENEW, Reply::Done);
    // The holder and that waiter leave: the next one confirms its place, too.
    for (id, answer) in [(1, Reply::Done), (2, Reply::NotHeld)] {
        scenario.abandons(id);
        scenario.answers(Action::Release, answer);
    }
    scenario.passes(2 * SECOND);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(3, AGAIN)]);
}

#[test]
fn an_unfinished_call_is_repeated_at_once() {
    let mut scenario = Scenario::connected();
    let unfinished = || Reply::Refused(Refusal::Unfinished);
    let mut outcome = scenario.acquires(1, Some(Duration::ZERO));
    scenario.answers(Action::Acquire(Mode::OneTry), unfinished());
    scenario.answers(Action::Acquire(Mode::OneTry), Reply::Acquire(Verdict::Granted { fence: 7 }));
    assert!(held(&mut outcome).is_some());
    scenario.drops_guard(1);
    scenario.answers(Action::Release, unfinished());
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_permanent_refusal_ends_only_a_bounded_wait() {
    let mut scenario = Scenario::connected();
    let refused = || Reply::Refused(Refusal::Permanent("NOPERM no right".into()));
    let mut outcomes = [scenario.acquires(1, Some(SECOND)), scenario.acquires(2, None)];
    scenario.answers(JOIN, refused());
    scenario.answers(JOIN, refused());
    assert!(
        matches!(outcomes[0].try_recv(), Ok(AcquireOutcome::Failed(error)) if matches!(*error, LockError::Misconfigured { .. }))
    );
    scenario.passes(SECOND);
    scenario.tick();
    scenario.answers(JOIN_AGAIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
    assert!(held(&mut outcomes[1]).is_some());
}

#[test]
fn a_permanent_refusal_to_connect_ends_only_a_bounded_wait() {
    let mut scenario = Scenario::connected();
    let mut before = [scenario.acquires(1, Some(SECOND)), scenario.acquires(2, None)];
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    let trouble = Disconnected { reason: "WRONGPASS".into(), is_permanent: true };
    scenario.table.unreachable(scenario.now, trouble);
    let mut after = [scenario.acquires(3, Some(SECOND)), scenario.acquires(4, None)];
    for outcomes in [&mut before, &mut after] {
        assert!(matches!(
            outcomes[0].try_recv(),
            Ok(AcquireOutcome::Failed(error)) if matches!(*error, LockError::Misconfigured { .. })
        ));
        assert!(outcomes[1].try_recv().is_err(), "it waits");
    }
    scenario.sent.clear();
    scenario.connects();
    scenario.send();
    assert_eq!(scenario.unanswered(), [(1, Action::Release), (2, JOIN_AGAIN), (4, JOIN)]);
}

/// A holder and all waiters next to it may die together. Their lock expires after a ttl, and until
/// then the first waiter of each living process has asked, however far behind it is: so it knows
/// when to ask again.
#[test]
fn the_next_first_waiter_of_a_process_asks_within_a_ttl() {
    let mut scenario = Scenario::connected();
    let ttl = 2 * SECOND;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for id in [1, 2] {
        let (mut ask, outcome) = scenario.ask(None, None);
        ask.ttl = ttl;
        scenario.table.acquire(scenario.now, id, ask, token_of(id));
        scenario.send();
        let place = scenario.busy(500);
        scenario.answers(JOIN, place);
        outcomes.push(outcome);
    }
    let at = scenario.server_time();
    scenario.grants(1, at);
    assert!(held(&mut outcomes[0]).is_some());
    scenario.sent.clear();
    scenario.passes(ttl + SECOND / 100);
    scenario.tick();
    assert!(scenario.unanswered().contains(&(2, AGAIN)), "{:?}", scenario.unanswered());
}

/// The process was stopped: its callers had left when it read the grant. The others took it for
/// stuck, and its places are gone.
#[test]
fn when_a_claim_ran_out_unheard_the_first_waiter_asks_whether_it_has_a_place() {
    for has_left in [true, false] {
        for (reply, asks) in [(Reply::NotHeld, true), (Reply::Done, false)] {
            let mut scenario = Scenario::connected();
            let _outcomes: Vec<_> = (1..=3).map(|id| queued(id, &mut scenario)).collect();
            let at = scenario.server_time();
            scenario.passes(2 * CLAIM);
            if has_left {
                scenario.abandons(1);
                scenario.grants(1, at);
            } else {
                let token = Token::from_value("token 1");
                let kind = PushKind::Granted { fence: 7, at, marked: false };
                scenario.table.on_push(
                    scenario.now,
                    &Push { token, name: "lock:k".into(), kind, followers: "".into(), is_undercut: false },
                );
                scenario.abandons(1);
            }
            scenario.answers(Action::Release, reply);
            assert_eq!(scenario.unanswered(), if asks { vec![(2, AGAIN)] } else { vec![] }, "{has_left}");
        }
    }
}

#[test]
fn when_a_claim_of_no_attempt_ran_out_the_first_waiter_asks_whether_it_has_a_place() {
    let mut scenario = Scenario::connected();
    let _outcome = queued(1, &mut scenario);
    let at = scenario.server_time();
    scenario.grants(2, at);
    scenario.answers(Action::Release, Reply::NotHeld);
    assert_eq!(scenario.unanswered(), [(1, AGAIN)]);
}

/// A granted holder of this process was stopped in its claim, and the first waiter leaves when it
/// goes on: that one would have asked whether the places of its process are gone.
#[test]
fn behind_a_holder_the_next_waiter_asks_in_place_of_the_first_that_leaves() {
    let mut scenario = Scenario::connected();
    let _holder = queued(1, &mut scenario);
    let _waiters = [queued(2, &mut scenario), queued(3, &mut scenario)];
    scenario.grants(1, scenario.server_time());
    scenario.passes(2 * CLAIM);
    scenario.abandons(2);
    scenario.tick();
    assert!(scenario.unanswered().contains(&(3, AGAIN)), "{:?}", scenario.unanswered());
}
