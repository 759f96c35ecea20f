//! An attempt that is alone with its lock takes it, and releases it, without the queue.

use std::sync::OnceLock;

use super::*;
use crate::base::limit::Limit;
use crate::base::tick::{Tick, TickMissed};
use crate::engine::protocol::{Once, OnceRequest, Run, TickRequest};

const IN_VAIN: Reply = Reply::Refused(Refusal::Contended);

/// An attempt whose caller cannot see the fencing token.
fn unfenced(id: Id, wait: Option<Duration>, scenario: &mut Scenario) -> Outcome {
    let (mut ask, outcome) = scenario.ask(wait, None);
    ask.fenced = false;
    scenario.table.acquire(scenario.now, id, ask, token_of(id));
    scenario.send();
    outcome
}

/// The requests: whether each is direct.
#[track_caller]
fn sends(scenario: &Scenario, expected: &[(Id, Action, bool)]) {
    let sent: Vec<_> =
        scenario.sent.iter().map(|(id, _, request)| (*id, request.action, request.is_direct())).collect();
    assert_eq!(sent, expected);
    assert!(scenario.sent.iter().all(|(_, _, request)| !request.fenced));
}

const GRANTED: Reply = Reply::Acquire(Verdict::Granted { fence: 0 });

#[test]
fn one_with_a_fencing_token_does_so_too() {
    for wait in [None, Some(Duration::ZERO)] {
        let action = if wait.is_none() { JOIN } else { Action::Acquire(Mode::OneTry) };
        let mut scenario = Scenario::connected();
        let mut outcome = scenario.acquires(1, wait);
        assert!(scenario.sent.iter().all(|(_, _, request)| request.is_direct() && request.fenced));
        scenario.answers(action, Reply::Acquire(Verdict::Granted { fence: 7 }));
        assert_eq!(held(&mut outcome).map(|lease| lease.fence()), Some(7));
        let _released = scenario.releases(1);
        assert!(scenario.sent.iter().all(|(_, _, request)| request.is_direct()));
        scenario.answers(Action::Release, Reply::Done);
        assert!(scenario.table.is_idle());
    }
}

/// The record of ticks, who is inside, the result of a body, a ticket, the key before this one, the votes
/// of others: a plain command looks at none of these.
#[test]
fn a_lock_that_depends_on_more_than_its_key_is_asked_for_by_a_script() {
    type Needs = fn(&mut Ask);
    let needs: [(Abilities, Needs); 6] = [
        (HANDS_OVER, |ask| {
            let tick = Tick { every_ms: 1000, at_ms: None, missed: TickMissed::Retry };
            ask.kind = TickRequest::of(tick, ask.deadline.started);
        }),
        (HANDS_OVER, |ask| ask.kind = Kind::of_limit(Limit::NONE)),
        (HANDS_OVER, |ask| ask.kind = Kind::of_limit(Limit::of(2))),
        (HANDS_OVER, |ask| {
            let (fingerprint, result) = ("-".into(), OnceLock::new());
            let once = Once { fingerprint, lasts: TTL, reruns: true, ignores: None, result };
            ask.kind = OnceRequest::of(Arc::new(once), Run::Undone);
        }),
        (HANDS_OVER, |ask| ask.kind = Kind::Ticket(Box::new(token_of(2)))),
        (Abilities { votes: true, ..NEITHER }, |_| {}),
    ];
    for (number, (abilities, needs)) in needs.into_iter().enumerate() {
        for fenced in [true, false] {
            let mut scenario = Scenario::with(abilities);
            let (mut ask, _outcome) = scenario.ask(None, None);
            ask.fenced = fenced;
            needs(&mut ask);
            scenario.table.acquire(scenario.now, 1, ask, token_of(1));
            scenario.send();
            let direct: Vec<_> = scenario.sent.iter().map(|(_, _, request)| request.is_direct()).collect();
            assert_eq!(direct, [false], "{number}, fenced: {fenced}");
        }
    }
}

#[test]
fn a_lock_that_came_without_a_fencing_token_is_asked_for_again_or_given_back() {
    let no_fence = || Reply::Refused(Refusal::NoFence);
    for refused in [None, Some(Refusal::Permanent("OOM".into()))] {
        let mut scenario = Scenario::connected();
        let mut outcome = scenario.acquires(1, Some(Duration::ZERO));
        let action = Action::Acquire(Mode::OneTry);
        scenario.answers(action, no_fence());
        assert!(
            scenario.sent.iter().all(|(_, _, request)| !request.is_direct() && request.token == token_of(1))
        );
        let Some(refusal) = refused else {
            scenario.answers(action, Reply::Acquire(Verdict::Granted { fence: 7 }));
            assert_eq!(held(&mut outcome).map(|lease| lease.fence()), Some(7));
            continue;
        };
        scenario.answers(action, Reply::Refused(refusal));
        assert_eq!(scenario.unanswered(), [(1, Action::Release)], "the server has it");
    }
    // Its caller has left before it came.
    let mut scenario = Scenario::connected();
    let _outcome = scenario.acquires(1, None);
    scenario.table.on_command(scenario.now, Command::Abandon { id: 1 });
    scenario.send();
    scenario.answers(JOIN, no_fence());
    assert_eq!(scenario.unanswered(), [(1, Action::Release)]);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn who_waits_for_ever_gives_a_lock_back_whose_number_is_refused() {
    let refused = || Reply::Refused(Refusal::Permanent("NOPERM".into()));
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Refused(Refusal::NoFence));
    scenario.answers(JOIN_AGAIN, refused());
    scenario.answers(Action::Release, Reply::Done);
    // Nothing of a later request is left, so there is nothing to give back.
    for _ in 0..2 {
        scenario.assert_quiet();
        scenario.passes(2 * SECOND);
        scenario.tick();
        assert!(scenario.sent.iter().all(|(_, _, request)| request.token != token_of(1)));
        scenario.answers(JOIN_AGAIN, refused());
    }
    scenario.passes(2 * SECOND);
    scenario.tick();
    scenario.answers(JOIN_AGAIN, GRANTED);
    assert!(held(&mut outcome).is_some());
}

#[test]
fn a_free_lock_is_taken_and_released_without_its_queue() {
    for wait in [None, Some(Duration::ZERO)] {
        let action = if wait.is_none() { JOIN } else { Action::Acquire(Mode::OneTry) };
        let mut scenario = Scenario::connected();
        let mut outcome = unfenced(1, wait, &mut scenario);
        sends(&scenario, &[(1, action, true)]);
        scenario.answers(action, GRANTED);
        assert!(held(&mut outcome).is_some());
        let _released = scenario.releases(1);
        sends(&scenario, &[(1, Action::Release, true)]);
        scenario.answers(Action::Release, Reply::Done);
        assert!(scenario.table.is_idle());
    }
}

/// The process may end next: nobody would send the script behind a plain command that has found a waiter.
#[test]
fn a_release_that_nobody_waits_for_is_not_direct() {
    for ends in [Scenario::drops_guard, Scenario::abandons] {
        let mut scenario = Scenario::connected();
        let mut outcome = unfenced(1, None, &mut scenario);
        scenario.answers(JOIN, GRANTED);
        assert!(held(&mut outcome).is_some());
        ends(&mut scenario, 1);
        sends(&scenario, &[(1, Action::Release, false)]);
        scenario.answers(Action::Release, Reply::Done);
        assert!(scenario.table.is_idle());
    }
}

#[test]
fn a_request_in_vain_is_repeated_through_the_queue() {
    for wait in [None, Some(Duration::ZERO)] {
        let (first, then) =
            if wait.is_none() { (JOIN, JOIN_AGAIN) } else { [Action::Acquire(Mode::OneTry); 2].into() };
        let mut scenario = Scenario::connected();
        let mut outcome = unfenced(1, wait, &mut scenario);
        scenario.answers(first, IN_VAIN);
        sends(&scenario, &[(1, then, false)]);
        scenario.answers(then, GRANTED);
        assert!(held(&mut outcome).is_some());
        let _released = scenario.releases(1);
        scenario.answers(Action::Release, IN_VAIN);
        sends(&scenario, &[(1, Action::Release, false)]);
        scenario.answers(Action::Release, Reply::Done);
        assert!(scenario.table.is_idle());
    }
}

#[test]
fn a_lock_that_was_contended_is_asked_for_through_its_queue_until_it_is_free() {
    let mut scenario = Scenario::connected();
    let _outcome = unfenced(1, None, &mut scenario);
    scenario.answers(JOIN, GRANTED);
    let _released = scenario.releases(1);
    scenario.answers(Action::Release, IN_VAIN);
    scenario.answers(Action::Release, Reply::Done);
    let _outcome = unfenced(2, None, &mut scenario);
    sends(&scenario, &[(2, JOIN, false)]);
    scenario.answers(JOIN, GRANTED);
    scenario.drops_guard(2);
    scenario.answers(Action::Release, Reply::Done);
    let _outcome = unfenced(3, None, &mut scenario);
    sends(&scenario, &[(3, JOIN, true)]);
}

#[test]
fn a_repeated_request_is_not_direct() {
    // The reply was lost: the first may have been executed.
    let mut scenario = Scenario::connected();
    let _outcome = unfenced(1, None, &mut scenario);
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.sent.clear();
    scenario.connects();
    scenario.send();
    sends(&scenario, &[(1, JOIN_AGAIN, false)]);
}

#[test]
fn a_direct_request_that_a_cluster_has_sent_once_more_is_granted_by_a_push() {
    // Over the next connection to its node it has asked for a place: the table gets the answer
    // only.
    let mut scenario = Scenario::connected();
    let mut outcome = unfenced(1, None, &mut scenario);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    scenario.tells(1, PushKind::Granted { fence: 0, at: scenario.server_time(), marked: false });
    assert!(held(&mut outcome).is_some());
}

#[test]
fn behind_another_attempt_of_the_process_no_request_is_direct() {
    let mut scenario = Scenario::connected();
    let _first = unfenced(1, None, &mut scenario);
    let _second = unfenced(2, None, &mut scenario);
    let _third = unfenced(3, Some(Duration::ZERO), &mut scenario);
    sends(&scenario, &[(1, JOIN, true), (2, JOIN, false), (3, Action::Acquire(Mode::OneTry), false)]);
}

#[test]
fn a_lock_that_is_or_was_waited_for_is_not_released_directly() {
    // A waiter of this process has marked it.
    let mut scenario = Scenario::connected();
    let _first = unfenced(1, None, &mut scenario);
    scenario.answers(JOIN, GRANTED);
    let _second = unfenced(2, None, &mut scenario);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    scenario.drops_guard(1);
    sends(&scenario, &[(1, Action::Release, false)]);
    scenario.answers(Action::Release, Reply::Done);
    // Others may wait behind this waiter.
    scenario.tells(2, PushKind::Granted { fence: 0, at: scenario.server_time(), marked: false });
    scenario.drops_guard(2);
    sends(&scenario, &[(2, Action::Release, false)]);
}

#[test]
fn a_fencing_token_is_drawn_later_for_a_nested_call_that_shows_it() {
    let mut scenario = Scenario::connected();
    let mut outcome = unfenced(1, None, &mut scenario);
    scenario.answers(JOIN, GRANTED);
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    let fence = |scenario: &mut Scenario| {
        let (caller, drawn) = oneshot::channel();
        scenario.table.on_command(scenario.now, Command::Fence { id: 1, caller });
        scenario.send();
        drawn
    };
    let drawn = [fence(&mut scenario), fence(&mut scenario)];
    assert_eq!(scenario.unanswered(), [(1, Action::Draw)]);
    scenario.answers(Action::Draw, Reply::Refused(Refusal::NoScript));
    scenario.answers(Action::Draw, Reply::Reserved { last: 7 });
    assert!(drawn.map(|mut drawn| drawn.try_recv()) == [Ok(()), Ok(())]);
    assert_eq!(lease.fence(), 7);
    assert_eq!(fence(&mut scenario).try_recv(), Ok(()));
    scenario.assert_quiet();
}

#[test]
fn without_an_answer_a_nested_call_is_told() {
    for is_cut in [true, false] {
        let mut scenario = Scenario::connected();
        let mut outcome = unfenced(1, None, &mut scenario);
        scenario.answers(JOIN, GRANTED);
        let (caller, mut drawn) = oneshot::channel();
        scenario.table.on_command(scenario.now, Command::Fence { id: 1, caller });
        scenario.send();
        if is_cut {
            scenario.table.disconnected(scenario.now, "cut".into(), &[]);
        } else {
            scenario.answers(Action::Draw, Reply::NotHeld);
        }
        assert!(matches!(drawn.try_recv(), Err(TryRecvError::Closed)));
        assert!(held(&mut outcome).is_some_and(|lease| lease.fence() == 0));
    }
}

/// The reply to the watch may come late, and so may that to the release: a waiter of another process may
/// have marked the key.
#[test]
fn a_lock_that_another_client_has_changed_is_released_by_a_script() {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let mut outcome = unfenced(1, None, &mut scenario);
    scenario.answers(JOIN, GRANTED);
    assert!(held(&mut outcome).is_some());
    scenario.passes(SECOND / 5);
    scenario.tick();
    scenario.answers(Action::Watch, Reply::HeldFor { left: TTL });
    scenario.changes();
    scenario.drops_guard(1);
    sends(&scenario, &[(1, Action::Watch, false), (1, Action::Release, false)]);
}
