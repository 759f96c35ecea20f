//! A waiter asks in time when a marked lock expires, and a holder knows of its mark.

use super::*;

/// The lock lasts for so long, as the server said.
fn busy_for(lasts: Duration, scenario: &Scenario) -> Reply {
    let holder = Holder { owner: Some(Owner::read("host:1")), expires_in: Some(lasts), ..Holder::default() };
    Reply::Acquire(Verdict::Busy { holder, place: Some(Place { in_front: 0, at: scenario.server_time() }) })
}

#[track_caller]
fn asks_again(scenario: &mut Scenario, time: Duration) {
    scenario.passes(time);
    scenario.tick();
    assert_eq!(scenario.unanswered(), [(1, AGAIN)]);
}

#[test]
fn a_waiter_counts_the_lease_in_front_from_its_request() {
    let mut scenario = Scenario::connected();
    let _outcome = scenario.acquires(1, None);
    let busy = busy_for(SECOND / 5, &scenario);
    // The process stood still for a while, and reads the reply late.
    scenario.passes(SECOND / 10);
    scenario.answers(JOIN, busy);
    asks_again(&mut scenario, SECOND / 10 + SECOND / 100);
}

#[test]
fn a_waiter_counts_a_claim_in_front_from_the_servers_time() {
    let mut scenario = Scenario::connected();
    let _outcome = queued(1, &mut scenario);
    let next = PushKind::Next { claim: SECOND / 5, at: scenario.server_time() };
    scenario.passes(SECOND / 10);
    scenario.tells(1, next);
    asks_again(&mut scenario, SECOND / 10 + SECOND / 100);
}

#[test]
fn a_push_only_brings_the_time_to_ask_forward() {
    let mut scenario = Scenario::connected();
    let _outcome = scenario.acquires(1, None);
    let busy = busy_for(SECOND / 10, &scenario);
    scenario.answers(JOIN, busy);
    let next = PushKind::Next { claim: CLAIM, at: scenario.server_time() };
    scenario.tells(1, next);
    asks_again(&mut scenario, SECOND / 10 + SECOND / 100);
}

#[test]
fn a_lock_that_is_lost_while_its_waiters_request_is_unanswered_is_released() {
    for is_answered in [false, true] {
        let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
        let mut outcome = queued(1, &mut scenario);
        scenario.passes(SECOND / 10);
        let at = scenario.server_time();
        asks_again(&mut scenario, SECOND);
        scenario.tells(1, PushKind::Granted { fence: 7, at: ServerTime(at.0 + 900_000), marked: false });
        assert!(held(&mut outcome).is_some());
        let Some((id, sent, again)) = scenario.next() else { unreachable!("it asked again") };
        if is_answered {
            scenario.table.reply(
                scenario.now,
                id,
                sent,
                &again,
                Reply::Acquire(Verdict::Claimed { fence: 8 }),
            );
        }
        scenario.table.at_attempt(scenario.now, 1, |lock, cx| lock.watch(cx, 1));
        scenario.send();
        scenario.answers(Action::Watch, Reply::NotHeld);
        assert_eq!(scenario.unanswered(), [(1, Action::Release)], "{is_answered}");
    }
}

/// The server does not tell a client of its own changes, and a change ends the watch.
#[test]
fn a_holder_watches_again_when_a_waiter_of_its_process_has_marked_the_lock() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    scenario.holds(1);
    scenario.passes(SECOND / 5);
    scenario.tick();
    scenario.answers(Action::Watch, Reply::HeldFor { left: TTL });
    let _second = queued(2, &mut scenario);
    scenario.answers(Action::Watch, Reply::HeldFor { left: TTL });
    // It has the mark already.
    let _third = queued(3, &mut scenario);
    scenario.assert_quiet();
}

#[test]
fn those_behind_the_head_ask_after_it_and_within_the_grace() {
    let mut scenario = Scenario::connected();
    let _outcome = scenario.acquires(1, None);
    let holder =
        Holder { owner: Some(Owner::read("host:1")), expires_in: Some(SECOND / 10), ..Holder::default() };
    let place = Some(Place { in_front: 1, at: scenario.server_time() });
    scenario.answers(JOIN, Reply::Acquire(Verdict::Busy { holder, place }));
    scenario.passes(SECOND / 10 + SECOND / 25);
    scenario.tick();
    scenario.assert_quiet();
    asks_again(&mut scenario, SECOND / 50);
}

/// The server sends this process no hint about its own claim.
#[test]
fn a_waiter_behind_a_claim_of_its_own_process_asks_when_that_is_over() {
    for told in [CLAIM, 2 * CLAIM] {
        let mut scenario = Scenario::connected();
        let _first = scenario.acquires(1, None);
        let far_behind = scenario.busy(99);
        scenario.answers(JOIN, far_behind);
        let mut second = queued(2, &mut scenario);
        let at = scenario.server_time();
        scenario.tells(1, PushKind::Next { claim: told, at });
        scenario.grants(2, at);
        assert!(held(&mut second).is_some());
        scenario.passes(CLAIM / 2);
        scenario.tick();
        scenario.answers(RENEW, Reply::Done);
        scenario.passes(CLAIM / 2);
        scenario.tick();
        scenario.assert_quiet();
        asks_again(&mut scenario, SECOND / 100);
    }
}
