//! Bodies that run once.

use std::sync::OnceLock;

use super::*;
use crate::engine::protocol::{NotRun, Once, OnceRequest, Run};

fn once() -> Arc<Once> {
    Arc::new(Once {
        fingerprint: "-".into(),
        lasts: 10 * SECOND,
        reruns: true,
        ignores: None,
        result: OnceLock::new(),
    })
}

fn asks(scenario: &mut Scenario, id: Id) -> (Arc<Once>, Outcome) {
    let (mut ask, outcome) = scenario.ask(None, None);
    let once = once();
    ask.kind = OnceRequest::of(Arc::clone(&once), Run::Undone);
    scenario.table.acquire(scenario.now, id, ask, token_of(id));
    scenario.send();
    (once, outcome)
}

fn waits(scenario: &mut Scenario, id: Id) -> (Arc<Once>, Outcome) {
    let asked = asks(scenario, id);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    asked
}

fn not_run(why: NotRun, kept: bool) -> Reply {
    Reply::Acquire(Verdict::NotRun { why, kept })
}

fn done(result: &str, kept: bool) -> Reply {
    not_run(NotRun::Done(result.as_bytes().into()), kept)
}

#[track_caller]
fn replays(once: &Once, outcome: &mut Outcome, result: &str) {
    assert!(matches!(outcome.try_recv(), Ok(AcquireOutcome::Replayed)));
    assert_eq!(once.result.get().map(|result| &**result), Some(result.as_bytes()));
}

/// Checks what the oldest unanswered request, a release, says of the body, and replies.
#[track_caller]
fn releases_as(scenario: &mut Scenario, expected: &str, reply: Reply) {
    let Some((id, sent, request)) = scenario.next() else { unreachable!("nothing was sent") };
    assert_eq!((request.action, request.is_direct()), (Action::Release, false));
    let Some(of) = request.kind.once() else { unreachable!("its body does not run once") };
    assert_eq!(format!("{:?}", of.run).split('(').next(), Some(expected));
    scenario.table.reply(scenario.now, id, sent, &request, reply);
    scenario.send();
}

#[test]
fn a_replay_is_one_request() {
    let mut scenario = Scenario::connected();
    let (once, mut outcome) = asks(&mut scenario, 1);
    scenario.answers(JOIN, done("7", false));
    replays(&once, &mut outcome, "7");
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_run_is_two_requests_and_neither_is_direct() {
    let mut scenario = Scenario::connected();
    let (_, mut outcome) = asks(&mut scenario, 1);
    assert!(scenario.sent.iter().all(|(_, _, request)| !request.is_direct()));
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    assert!(held(&mut outcome).is_some());
    let (caller, mut released) = oneshot::channel();
    let run = Run::Done(b"7".as_slice().into());
    scenario.table.on_command(scenario.now, Command::Finish { id: 1, run, response: Response::to(caller) });
    scenario.send();
    releases_as(&mut scenario, "Done", Reply::Done);
    let released = released.try_recv().map(|released| released.outcome);
    assert_eq!(released, Ok(Ok(ReleaseOutcome::Released)));
    assert!(scenario.table.is_idle());
}

#[test]
fn a_result_whose_release_is_repeated_and_finds_no_lock_is_not_stored() {
    let mut scenario = Scenario::connected();
    let (_, mut outcome) = asks(&mut scenario, 1);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    assert!(held(&mut outcome).is_some());
    let (caller, mut released) = oneshot::channel();
    let run = Run::Done(b"7".as_slice().into());
    scenario.table.on_command(scenario.now, Command::Finish { id: 1, run, response: Response::to(caller) });
    scenario.send();
    // The reply is lost.
    releases_as(&mut scenario, "Done", Reply::Refused(Refusal::OutcomeUnknown("gone".into())));
    scenario.passes(SECOND / 5);
    scenario.tick();
    releases_as(&mut scenario, "Done", Reply::NotHeld);
    let released = released.try_recv().map(|released| released.outcome);
    assert_eq!(released, Ok(Ok(ReleaseOutcome::AlreadyLost)));
    assert!(scenario.table.is_idle());
}

#[test]
fn a_waiter_that_is_granted_the_lock_by_a_push_asks_before_its_body() {
    let mut scenario = Scenario::connected();
    let (once, mut outcome) = waits(&mut scenario, 1);
    scenario.grants(1, scenario.server_time());
    assert!(outcome.try_recv().is_err(), "it has not looked");
    scenario.answers(AGAIN, done("7", true));
    replays(&once, &mut outcome, "7");
    // It has the lock, and its body has not begun.
    releases_as(&mut scenario, "Undone", Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn it_runs_when_nothing_was_done_meanwhile() {
    let mut scenario = Scenario::connected();
    let (_, mut outcome) = waits(&mut scenario, 1);
    scenario.grants(1, scenario.server_time());
    scenario.answers(AGAIN, Reply::Acquire(Verdict::Claimed { fence: 9 }));
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    assert_eq!(lease.fence(), 9);
    // Its guard is dropped in the middle of the body.
    scenario.drops_guard(1);
    releases_as(&mut scenario, "Interrupted", Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn each_waiter_that_is_told_of_the_result_asks_once_and_leaves_nothing() {
    let mut scenario = Scenario::connected();
    let mut waiting: Vec<_> = (1..=3).map(|id| waits(&mut scenario, id)).collect();
    for id in 1..=3 {
        scenario.tells(id, PushKind::Done);
    }
    assert_eq!(scenario.unanswered(), [(1, REJOIN), (2, REJOIN), (3, REJOIN)]);
    for _ in 1..=3 {
        scenario.answers(REJOIN, done("7", false));
    }
    for (once, outcome) in &mut waiting {
        replays(once, outcome, "7");
    }
    scenario.assert_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn a_push_that_overtakes_the_reply_of_its_waiter_is_not_lost() {
    let mut scenario = Scenario::connected();
    let (once, mut outcome) = asks(&mut scenario, 1);
    scenario.tells(1, PushKind::Done);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    scenario.answers(REJOIN, done("7", false));
    replays(&once, &mut outcome, "7");
    scenario.assert_quiet();
}

#[test]
fn errors_end_the_attempt() {
    let interrupted = NotRun::Interrupted { owner: Some(Owner::read("host:1")), since: SECOND };
    for (why, expected) in [(NotRun::Reused, "KeyReused"), (interrupted, "Interrupted")] {
        for kept in [false, true] {
            let mut scenario = Scenario::connected();
            let (_, mut outcome) = asks(&mut scenario, 1);
            scenario.answers(JOIN, not_run(why.clone(), kept));
            let error = failed(&mut outcome).map(|error| format!("{:?}", error.kind()));
            assert_eq!(error.as_deref(), Some(expected));
            if kept {
                releases_as(&mut scenario, "Undone", Reply::Done);
            }
            assert!(scenario.table.is_idle());
        }
    }
}

#[test]
fn a_caller_that_goes_before_its_body_begins_has_not_interrupted_it() {
    let mut scenario = Scenario::connected();
    let (_, outcome) = asks(&mut scenario, 1);
    drop(outcome);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    releases_as(&mut scenario, "Undone", Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn it_is_passed_on_to_no_caller_of_its_process() {
    let mut scenario = Scenario::connected();
    let (_, mut outcome) = asks(&mut scenario, 1);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 7 }));
    assert!(held(&mut outcome).is_some());
    let (_, mut second) = waits(&mut scenario, 2);
    scenario.drops_guard(1);
    assert!(second.try_recv().is_err());
    releases_as(&mut scenario, "Interrupted", Reply::Done);
}
