//! A holder that has its lock alone lets others in beside itself.

use super::*;
use crate::base::limit::Limit;
use crate::engine::command::Extension;

const DOWNGRADE: Action = Action::Downgrade { place_ttl: TTL };

/// The fencing token of the holder.
const PHASE: u64 = 1;

const IS_SHARED: Reply = Reply::Reserved { last: PHASE };

type Downgraded = oneshot::Receiver<Result<(), LockError>>;

fn downgrades(scenario: &mut Scenario, id: Id) -> Downgraded {
    let (caller, outcome) = oneshot::channel();
    scenario.table.on_command(scenario.now, Command::Downgrade { id, caller });
    scenario.send();
    outcome
}

/// A holder whose downgrade is sent.
fn downgrading() -> (Scenario, Arc<Lease>, Downgraded) {
    let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
    let lease = scenario.holds(1);
    let outcome = downgrades(&mut scenario, 1);
    (scenario, lease, outcome)
}

fn downgraded() -> (Scenario, Arc<Lease>) {
    let (mut scenario, lease, mut outcome) = downgrading();
    scenario.answers(DOWNGRADE, IS_SHARED);
    assert_eq!(outcome.try_recv(), Ok(Ok(())));
    (scenario, lease)
}

/// The unanswered requests, and whether each is that of one of several.
fn sent(scenario: &Scenario) -> Vec<(Id, Action, bool)> {
    let sent = scenario.sent.iter();
    sent.map(|(id, _, request)| (*id, request.action, request.kind.is_counted())).collect()
}

fn waits(scenario: &mut Scenario, id: Id, limit: Limit) -> Outcome {
    let (mut ask, outcome) = scenario.ask(None, None);
    ask.kind = Kind::of_limit(limit);
    scenario.table.acquire(scenario.now, id, ask, token_of(id));
    scenario.send();
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    outcome
}

fn disconnects(scenario: &mut Scenario) {
    scenario.table.disconnected(scenario.now, "cut".into(), &[]);
    scenario.sent.clear();
}

fn connects(scenario: &mut Scenario) {
    scenario.table.connected(scenario.now, HANDS_OVER_AND_TRACKS);
    scenario.send();
}

#[test]
fn one_request_turns_the_holder_into_one_of_several_with_the_same_lease() {
    let (mut scenario, lease, mut outcome) = downgrading();
    let [(_, _, request)] = &scenario.sent[..] else { unreachable!("{:?}", sent(&scenario)) };
    assert!(matches!(request.kind, Kind::Counted { limit: Limit::NONE, phase: PHASE }), "{:?}", request.kind);
    assert_eq!((lease.limit(), outcome.try_recv().is_err()), (Limit::ONE, true), "it is not answered");
    scenario.answers(DOWNGRADE, IS_SHARED);
    assert_eq!(outcome.try_recv(), Ok(Ok(())));
    assert_eq!((lease.limit(), lease.fence()), (Limit::NONE, PHASE));
    scenario.assert_quiet();
    // It renews and is watched as one of several.
    scenario.passes(TTL / 3);
    scenario.tick();
    assert!(
        sent(&scenario).contains(&(1, RENEW, true)) && sent(&scenario).contains(&(1, Action::Watch, true))
    );
    assert!(sent(&scenario).iter().all(|(_, _, is_one_of_several)| *is_one_of_several));
    scenario.sent.clear();
    // Once more is for nothing.
    assert_eq!(downgrades(&mut scenario, 1).try_recv(), Ok(Ok(())));
    scenario.drops_guard(1);
    assert_eq!(sent(&scenario), [(1, Action::Release, true)]);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn two_calls_send_one_request_and_both_are_answered() {
    let (mut scenario, _lease, first) = downgrading();
    let second = downgrades(&mut scenario, 1);
    scenario.answers(DOWNGRADE, IS_SHARED);
    scenario.assert_quiet();
    assert!([first, second].iter_mut().all(|outcome| outcome.try_recv() == Ok(Ok(()))));
}

/// What is sent meanwhile is right for both kinds: the server executes it before or behind the downgrade.
#[test]
fn while_it_is_unanswered_the_holder_renews_and_releases_as_either_kind() {
    let (mut scenario, _lease, _outcome) = downgrading();
    scenario.passes(TTL / 3);
    scenario.tick();
    assert_eq!(sent(&scenario), [(1, DOWNGRADE, true), (1, RENEW, true)], "and nothing is watched");
    scenario.drops_guard(1);
    assert_eq!(sent(&scenario).last(), Some(&(1, Action::Release, true)));
    // The answers to what was sent before change nothing.
    scenario.answers(DOWNGRADE, IS_SHARED);
    scenario.answers(RENEW, Reply::NotHeld);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

/// A request of the holder as it was before is executed behind the downgrade.
#[test]
fn what_was_sent_before_and_finds_a_shared_lock_is_no_loss() {
    for action in [RENEW, Action::Watch] {
        let mut scenario = Scenario::with(HANDS_OVER_AND_TRACKS);
        let lease = scenario.holds(1);
        scenario.passes(TTL / 3);
        scenario.tick();
        scenario.sent.retain(|(_, _, request)| request.action == action);
        scenario.sent.truncate(1);
        assert_eq!(sent(&scenario), [(1, action, false)]);
        let late = scenario.next();
        let _outcome = downgrades(&mut scenario, 1);
        let Some((id, at, request)) = late else { unreachable!("it was sent") };
        scenario.table.reply(scenario.now, id, at, &request, Reply::NotHeld);
        assert!(lease.remaining(scenario.now).is_some(), "{action:?}");
        scenario.answers(DOWNGRADE, IS_SHARED);
        scenario.sent.clear();
        // And behind the answer: the holder looks at once.
        scenario.table.reply(scenario.now, id, at, &request, Reply::NotHeld);
        scenario.send();
        assert!(lease.remaining(scenario.now).is_some() && sent(&scenario).contains(&(1, RENEW, true)));
        scenario.answers(RENEW, Reply::NotHeld);
        assert_eq!(lease.lost_reason(), Some(LostReason::KeyChanged));
    }
}

#[test]
fn a_holder_that_the_server_does_not_know_is_lost() {
    let (mut scenario, lease, mut outcome) = downgrading();
    scenario.answers(DOWNGRADE, Reply::NotHeld);
    assert_eq!(lease.lost_reason(), Some(LostReason::KeyChanged));
    assert!(outcome.try_recv().is_err(), "the guard knows why");
}

#[test]
fn a_downgrade_without_an_answer_is_sent_again_over_the_next_connection() {
    let (mut scenario, lease, mut outcome) = downgrading();
    disconnects(&mut scenario);
    connects(&mut scenario);
    assert_eq!(sent(&scenario), [(1, RENEW, true), (1, DOWNGRADE, true)]);
    scenario.answers(RENEW, Reply::Done);
    scenario.answers(DOWNGRADE, IS_SHARED);
    assert_eq!((outcome.try_recv(), lease.limit()), (Ok(Ok(())), Limit::NONE));
}

/// The next one may be another server, which knows it as it was before.
#[test]
fn a_lock_that_was_downgraded_is_so_over_each_connection() {
    let (mut scenario, lease) = downgraded();
    disconnects(&mut scenario);
    connects(&mut scenario);
    assert_eq!(sent(&scenario), [(1, RENEW, true), (1, DOWNGRADE, true)], "and nothing compares the value");
    scenario.answers(RENEW, Reply::Done);
    scenario.answers(DOWNGRADE, Reply::Refused(Refusal::Transient("TRYAGAIN".into())));
    scenario.passes(SECOND / 10);
    scenario.tick();
    scenario.sent.retain(|(_, _, request)| request.action == DOWNGRADE);
    scenario.answers(DOWNGRADE, IS_SHARED);
    assert!(lease.remaining(scenario.now).is_some() && lease.limit() == Limit::NONE);
    scenario.passes(SECOND);
    scenario.tick();
    assert_eq!(sent(&scenario), [(1, Action::Watch, true)]);
    scenario.sent.clear();
    // A slot that moves may do so behind a failover.
    let mut slots = Slots::none();
    slots.insert(Slot::of("lock:k"));
    scenario.table.returned(scenario.now, &slots);
    scenario.send();
    assert!(sent(&scenario).contains(&(1, DOWNGRADE, true)), "{:?}", sent(&scenario));
    scenario.drops_guard(1);
    assert_eq!(sent(&scenario).last(), Some(&(1, Action::Release, true)));
}

/// Without a caller nobody asks again. The lock is of either kind, and so are its requests.
#[test]
fn a_caller_that_leaves_or_waits_for_too_long_leaves_a_lock_of_either_kind() {
    for leaves in [true, false] {
        let (mut scenario, lease, mut outcome) = downgrading();
        disconnects(&mut scenario);
        if leaves {
            drop(outcome);
        } else {
            scenario.passes(20 * SECOND);
            scenario.tick();
            assert!(matches!(outcome.try_recv(), Ok(Err(LockError::Unavailable { .. }))));
        }
        connects(&mut scenario);
        assert_eq!(sent(&scenario), [(1, RENEW, true)], "{leaves}");
        scenario.answers(RENEW, Reply::Done);
        assert!(lease.remaining(scenario.now).is_some() && lease.limit() == Limit::ONE);
        // It gives no ticket, is not passed on, and another call finds out what it is.
        let ticket = scenario.hands_over(1).try_recv();
        assert!(ticket.is_ok_and(|released| released.outcome.is_err()));
        let mut again = downgrades(&mut scenario, 1);
        scenario.answers(DOWNGRADE, IS_SHARED);
        assert_eq!((again.try_recv(), lease.limit()), (Ok(Ok(())), Limit::NONE));
    }
}

#[test]
fn a_refusal_that_passes_is_asked_again_and_one_that_lasts_ends_the_call() {
    let (mut scenario, lease, mut outcome) = downgrading();
    scenario.answers(DOWNGRADE, Reply::Refused(Refusal::NoScript));
    scenario.answers(DOWNGRADE, Reply::Refused(Refusal::Transient("TRYAGAIN".into())));
    scenario.assert_quiet();
    // Meanwhile it is known to be held alone.
    scenario.passes(SECOND / 10);
    scenario.tick();
    assert_eq!(sent(&scenario).iter().filter(|(_, action, _)| *action == DOWNGRADE).count(), 1);
    scenario.sent.retain(|(_, _, request)| request.action == DOWNGRADE);
    scenario.answers(DOWNGRADE, Reply::Refused(Refusal::Permanent("NOPERM".into())));
    assert!(matches!(outcome.try_recv(), Ok(Err(LockError::Misconfigured { .. }))));
    assert!(lease.remaining(scenario.now).is_some());
    scenario.passes(TTL / 3);
    scenario.tick();
    assert!(
        sent(&scenario).iter().all(|(_, _, is_one_of_several)| !is_one_of_several),
        "{:?}",
        sent(&scenario)
    );
    scenario.drops_guard(1);
    assert_eq!(sent(&scenario).last(), Some(&(1, Action::Release, false)));
}

/// The script has stopped behind a command that has changed something, or there was no answer.
#[test]
fn a_refusal_that_may_have_changed_something_leaves_a_lock_of_either_kind() {
    let words = |words: &str| Arc::from(words);
    for refusal in [
        Refusal::Permanent(words("ERR user_script")),
        Refusal::OutcomeUnknown(words("cut")),
        Refusal::Unfinished,
    ] {
        let (mut scenario, _lease, _outcome) = downgrading();
        scenario.answers(DOWNGRADE, Reply::Refused(refusal.clone()));
        scenario.passes(TTL / 3);
        scenario.tick();
        let renewal = sent(&scenario).into_iter().find(|(_, action, _)| *action == RENEW);
        assert_eq!(renewal, Some((1, RENEW, true)), "{refusal:?}");
    }
}

#[test]
fn waiters_of_this_process_go_on_as_behind_one_of_several() {
    let (mut scenario, _lease) = downgraded();
    let mut reader = waits(&mut scenario, 2, Limit::NONE);
    let mut writer = waits(&mut scenario, 3, Limit::ONE);
    scenario.drops_guard(1);
    assert_eq!(sent(&scenario), [(1, Action::Release, true)], "it is not passed on");
    scenario.answers(Action::Release, Reply::Done);
    let at = scenario.server_time();
    for id in [2, 3] {
        scenario.grants(id, at);
    }
    assert!(held(&mut reader).is_some() && held(&mut writer).is_some());
}

#[test]
fn where_nothing_is_handed_over_the_first_waiter_of_this_process_asks_at_once() {
    let mut scenario = Scenario::with(NEITHER);
    let _lease = scenario.holds(1);
    let (mut ask, mut reader) = scenario.ask(None, None);
    ask.kind = Kind::of_limit(Limit::NONE);
    scenario.table.acquire(scenario.now, 2, ask, token_of(2));
    scenario.send();
    scenario.assert_quiet();
    let _outcome = downgrades(&mut scenario, 1);
    scenario.answers(DOWNGRADE, IS_SHARED);
    assert_eq!(sent(&scenario), [(2, JOIN, true)]);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: PHASE }));
    assert!(held(&mut reader).is_some());
}

#[test]
fn a_lock_that_is_not_renewed_looks_for_its_place_from_then_on() {
    let mut scenario = Scenario::with(HANDS_OVER);
    let (mut ask, mut outcome) = scenario.ask(None, None);
    ask.renew = false;
    scenario.table.acquire(scenario.now, 1, ask, token_of(1));
    scenario.send();
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: PHASE }));
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    scenario.passes(TTL / 6);
    let ends = lease.deadline();
    let _outcome = downgrades(&mut scenario, 1);
    assert!(scenario.sent.iter().all(|(_, _, request)| request.ttl < TTL), "for what is left");
    scenario.answers(DOWNGRADE, IS_SHARED);
    scenario.passes(TTL / 3);
    scenario.tick();
    assert_eq!(sent(&scenario), [(1, RENEW, true)]);
    scenario.answers(RENEW, Reply::Done);
    assert_eq!(lease.deadline(), ends, "its lease is what it was");
}

/// The server knows another holder until a renewal names this one.
#[test]
fn a_lock_that_was_passed_on_is_downgraded_once_the_server_knows_its_holder() {
    let mut scenario = Scenario::connected();
    let token = |id: Id| Token::from_value(&format!("secret-{id:015}@host:1"));
    let mut outcomes = Vec::new();
    for id in [1, 2] {
        let (mut ask, outcome) = scenario.ask(None, None);
        ask.fenced = false;
        scenario.table.cx.contended.insert(&ask.name);
        scenario.table.acquire(scenario.now, id, ask, token(id));
        scenario.send();
        let busy = scenario.busy(0);
        scenario.answers(JOIN, busy);
        outcomes.push(outcome);
    }
    let kind = PushKind::Granted { fence: 0, at: scenario.server_time(), marked: true };
    let (name, followers) = ("lock:k".into(), token(2).secret().into());
    let push = Push { token: token(1), name, kind, followers, is_undercut: false };
    scenario.table.on_push(scenario.now, &push);
    scenario.drops_guard(1);
    let Some(lease) = held(&mut outcomes[1]) else { unreachable!("it is passed on") };
    let mut outcome = downgrades(&mut scenario, 2);
    let Some((id, at, request)) = scenario.next() else { unreachable!("nothing was sent") };
    assert_eq!((request.action, request.other_tokens()), (RENEW, &[token(2)][..]));
    scenario.assert_quiet();
    scenario.table.reply(scenario.now, id, at, &request, Reply::Done);
    scenario.send();
    let [(_, _, request)] = &scenario.sent[..] else { unreachable!("{:?}", sent(&scenario)) };
    assert_eq!((request.action, &request.token, request.fenced), (DOWNGRADE, &token(2), false));
    // Its fencing token comes with the answer.
    scenario.answers(DOWNGRADE, Reply::Reserved { last: 7 });
    assert_eq!((outcome.try_recv(), lease.fence()), (Ok(Ok(())), 7));
}

/// A fencing token is drawn for a lock that is held alone.
#[test]
fn a_fencing_token_that_is_asked_for_meanwhile_comes_with_the_answer() {
    for (reply, draws) in [
        (Reply::Reserved { last: 7 }, false),
        (Reply::Refused(Refusal::Permanent("NOPERM".into())), true),
        (Reply::NotHeld, false),
    ] {
        let mut scenario = Scenario::connected();
        let (mut ask, mut outcome) = scenario.ask(None, None);
        ask.fenced = false;
        scenario.table.acquire(scenario.now, 1, ask, token_of(1));
        scenario.send();
        scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 0 }));
        let lease = held(&mut outcome);
        let _outcome = downgrades(&mut scenario, 1);
        let (caller, mut drawn) = oneshot::channel();
        scenario.table.on_command(scenario.now, Command::Fence { id: 1, caller });
        scenario.send();
        scenario.answers(DOWNGRADE, reply.clone());
        assert_eq!(sent(&scenario).contains(&(1, Action::Draw, false)), draws, "{reply:?}");
        let expected = match reply {
            Reply::Reserved { .. } => Ok(()),
            Reply::NotHeld => Err(TryRecvError::Closed),
            _ => Err(TryRecvError::Empty),
        };
        assert_eq!(drawn.try_recv(), expected, "{reply:?}");
        assert_eq!(
            lease.map(|lease| lease.fence()),
            Some(if draws || reply == Reply::NotHeld { 0 } else { 7 })
        );
    }
}

/// The release of one of several does not name the place that the request of a writer may have.
#[test]
fn a_place_of_the_holder_as_a_writer_is_given_back_with_its_release() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    scenario.passes(TTL + SECOND);
    scenario.tick();
    assert_eq!(sent(&scenario), [(1, AGAIN, false)]);
    // The grant crosses the request, which joins the queue behind it.
    let at = scenario.server_time();
    scenario.grants(1, at);
    let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
    let busy = scenario.busy(1);
    scenario.answers(AGAIN, busy);
    let _outcome = downgrades(&mut scenario, 1);
    scenario.sent.retain(|(_, _, request)| request.action == DOWNGRADE);
    scenario.answers(DOWNGRADE, Reply::Reserved { last: lease.fence() });
    scenario.sent.clear();
    scenario.drops_guard(1);
    let releases: Vec<_> = scenario.sent.iter().map(|(_, _, request)| request).collect();
    assert!(releases.iter().all(|request| request.action == Action::Release && request.token == token_of(1)));
    let kinds: Vec<_> = releases.iter().map(|request| request.kind.is_counted()).collect();
    assert_eq!(kinds, [true, false]);
    for _ in kinds {
        scenario.answers(Action::Release, Reply::Done);
    }
    assert!(scenario.table.is_idle());
}

#[test]
fn what_nobody_may_share_is_refused_and_still_held() {
    let refused =
        |outcome: &mut Downgraded| matches!(outcome.try_recv(), Ok(Err(LockError::InvalidRequest { .. })));
    // One of several permits, a tick, and one that limits a rate.
    let limits = HoldLimits { min: Some(SECOND), limits_rate: true, ..HoldLimits::default() };
    for (kind, hold) in [(Kind::of_limit(Limit::of(3)), HoldLimits::default()), (Kind::EXCLUSIVE, limits)] {
        let mut scenario = Scenario::connected();
        let (mut ask, mut outcome) = scenario.ask(None, None);
        (ask.kind, ask.hold) = (kind, hold);
        scenario.table.acquire(scenario.now, 1, ask, token_of(1));
        scenario.send();
        scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: PHASE }));
        assert!(refused(&mut downgrades(&mut scenario, 1)));
        scenario.assert_quiet();
        assert!(held(&mut outcome).is_some_and(|lease| lease.remaining(scenario.now).is_some()));
    }
    // A quorum.
    let mut scenario = Scenario::with(Abilities { votes: true, ..NEITHER });
    let _outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: PHASE }));
    assert!(refused(&mut downgrades(&mut scenario, 1)));
    scenario.assert_quiet();
}

/// An upgrade of the ttl on its way, and the end of the lease.
#[test]
fn a_ttl_that_changes_meanwhile_is_confirmed_and_a_lease_that_ends_answers_nobody() {
    let (mut scenario, lease, mut outcome) = downgrading();
    let (caller, mut extended) = oneshot::channel();
    let extension = Extension { ttl: SECOND, caller };
    scenario.table.on_command(scenario.now, Command::Extend { id: 1, extension });
    scenario.send();
    assert_eq!(sent(&scenario)[1], (1, Action::Renew { nth: 1, shortens: true }, true));
    let downgrade = scenario.next();
    scenario.answers(Action::Renew { nth: 1, shortens: true }, Reply::Done);
    assert_eq!(extended.try_recv(), Ok(Ok(())));
    scenario.passes(2 * SECOND);
    scenario.tick();
    assert_eq!(lease.lost_reason(), Some(LostReason::Expired));
    assert!(outcome.try_recv().is_err(), "the guard knows why");
    assert!(sent(&scenario).contains(&(1, Action::Release, true)), "{:?}", sent(&scenario));
    let Some((id, at, request)) = downgrade else { unreachable!("it was sent") };
    scenario.table.reply(scenario.now, id, at, &request, IS_SHARED);
    assert_eq!(lease.limit(), Limit::ONE);
}
