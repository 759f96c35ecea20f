//! The table driven by hand: every request, answer, push and tick in a chosen order, without a node or a clock.

mod backlog;
mod closing;
mod cohort;
mod forgotten;
mod renewing;
mod taken;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::LockTable;
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::engine::command::{AcquireOutcome, Ask, Response};
use crate::engine::protocol::{
    Action, CLAIM, Claimant, Disconnected, Id, Mode, Place, Push, PushKind, Refusal, Reply, Request,
    ServerTime,
};
use crate::engine::settings::TableSettings;
use crate::engine::slots::{Slot, Slots};
use crate::error::{Holder, LockError};
use crate::lease::Lease;
use crate::outcome::ReleaseOutcome;
use crate::token::Token;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);
const JOIN: Action = Action::Acquire(Mode::Join { at_most: 10 });
const AGAIN: Action = Action::Acquire(Mode::Again);
const RENEW: Action = Action::Renew { nth: 0, shortens: false };
const REJOIN: Action = Action::Acquire(Mode::Rejoin);
const SERVER_START: u64 = 1_000_000_000;

type Outcome = oneshot::Receiver<AcquireOutcome>;

/// A table, the time as it sees it, and what it has sent.
struct Scenario {
    table: LockTable,
    start: Moment,
    now: Moment,
    sent: Vec<(Id, Moment, Request)>,
}

impl Scenario {
    fn connected() -> Self {
        Self::with(Abilities { hands_over: true, tracks_changes: false, votes: false })
    }

    fn with(abilities: Abilities) -> Self {
        let now = Moment::now();
        let mut table = LockTable::new(TableSettings { io_timeout: SECOND, replicas: 0, cohort: 0 });
        table.connected(now, abilities);
        Self { table, start: now, now, sent: Vec::new() }
    }

    fn passes(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    fn tick(&mut self) {
        self.table.tick(self.now);
        self.send();
    }

    fn send(&mut self) {
        let now = self.now;
        self.sent.extend(self.table.take_outbox().into_iter().map(|(id, request)| (id, now, request)));
    }

    fn acquires(&mut self, id: Id, wait: Option<Duration>) -> Outcome {
        self.acquires_for(id, wait, None)
    }

    fn acquires_for(&mut self, id: Id, wait: Option<Duration>, min_hold: Option<Duration>) -> Outcome {
        let (ask, outcome) = self.ask(wait, min_hold);
        self.table.acquire(self.now, id, ask, Token::from_value(&format!("token {id}")));
        self.send();
        outcome
    }

    fn ask(&self, wait: Option<Duration>, min_hold: Option<Duration>) -> (Ask, Outcome) {
        let (caller, outcome) = oneshot::channel();
        let ask = Ask {
            key: "k".into(),
            name: "lock:k".into(),
            ttl: TTL,
            renew: true,
            max_hold: None,
            min_hold,
            one_try: wait == Some(Duration::ZERO),
            after: None,
            max_waiters: 10,
            started: self.now,
            gives_up_at: wait.map(|wait| self.now.after(wait.max(SECOND))),
            caller: Some(caller),
        };
        (ask, outcome)
    }

    /// The oldest request that is unanswered; `None` when there is none.
    fn next(&mut self) -> Option<(Id, Moment, Request)> {
        (!self.sent.is_empty()).then(|| self.sent.remove(0))
    }

    #[track_caller]
    fn answers(&mut self, expected: Action, reply: Reply) {
        let Some((id, sent, request)) = self.next() else { unreachable!("nothing was sent") };
        assert_eq!(request.action, expected);
        self.table.reply(self.now, id, sent, &request, reply);
        self.send();
    }

    fn busy(&self, in_front: u32) -> Reply {
        let holder = Holder { name: Some("host:1".into()), expires_in: Some(TTL) };
        Reply::Busy { holder, place: Some(Place { in_front, at: self.server_time() }) }
    }

    fn server_time(&self) -> ServerTime {
        let elapsed = self.now.since(self.start).as_micros();
        ServerTime(SERVER_START + u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// A push that the node sent at `at` and that arrives now.
    fn grants(&mut self, id: Id, at: ServerTime) {
        self.tells(id, PushKind::Granted { fence: 7, at });
    }

    fn tells(&mut self, id: Id, kind: PushKind) {
        let token = Token::from_value(&format!("token {id}"));
        self.table.on_push(self.now, &Push { token, name: "lock:k".into(), kind });
        self.send();
    }

    #[track_caller]
    fn is_quiet(&self) {
        let actions: Vec<_> = self.sent.iter().map(|(_, _, request)| request.action).collect();
        assert!(actions.is_empty(), "{actions:?}");
    }
}

fn held(outcome: &mut Outcome) -> Option<Arc<Lease>> {
    match outcome.try_recv() {
        Ok(AcquireOutcome::Held(lease)) => Some(lease),
        _ => None,
    }
}

fn queued(id: Id, scenario: &mut Scenario) -> Outcome {
    let outcome = scenario.acquires(id, None);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    outcome
}

#[test]
fn a_caller_that_has_gone_keeps_nothing_for_a_min_hold() {
    let mut scenario = Scenario::connected();
    drop(scenario.acquires_for(1, None, Some(SECOND)));
    scenario.answers(JOIN, Reply::Granted { fence: 7 });
    scenario.answers(Action::Release, Reply::Done);
}

#[test]
fn a_grant_is_entered_at_once_and_claimed_later() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    scenario.passes(SECOND / 10);
    let at = scenario.server_time();
    scenario.grants(1, at);
    scenario.is_quiet();
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
    scenario.table.release(scenario.now, 1, None);
    scenario.send();
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_grant_that_was_slept_over_is_asked_about_and_not_entered() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    let at = scenario.server_time();
    scenario.passes(CLAIM);
    scenario.grants(1, at);
    assert!(held(&mut outcome).is_none());
    // The server has passed it on meanwhile.
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
    scenario.answers(AGAIN, Reply::Claimed { fence: 8 });
    assert!(held(&mut outcome).is_some_and(|lease| lease.remaining(scenario.now) <= Some(CLAIM)));
}

#[test]
fn a_grant_for_nobody_goes_back() {
    let mut scenario = Scenario::connected();
    let at = scenario.server_time();
    scenario.grants(9, at);
    scenario.answers(Action::Release, Reply::Done);
    assert!(scenario.table.is_idle());
}

#[test]
fn a_grant_that_crosses_the_callers_leaving_is_given_back_once() {
    let mut scenario = Scenario::connected();
    let outcome = queued(1, &mut scenario);
    drop(outcome);
    scenario.table.abandon(scenario.now, 1);
    scenario.send();
    let at = scenario.server_time();
    scenario.grants(1, at);
    scenario.answers(Action::Release, Reply::Done);
    scenario.is_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn an_answer_that_took_longer_than_the_lease_is_not_a_lock() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    scenario.passes(TTL);
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    assert!(held(&mut outcome).is_none());
    let Some((_, _, release)) = scenario.next() else { unreachable!("it is given back") };
    assert_eq!(release.action, Action::Release);
    let Some((_, _, fresh)) = scenario.next() else { unreachable!("it is asked for again") };
    assert_eq!(fresh.action, JOIN);
    assert_ne!(fresh.token, release.token, "a token is never reused");
}

#[test]
fn a_caller_that_leaves_before_the_answer_gives_back_what_it_may_have_got() {
    let mut scenario = Scenario::connected();
    drop(scenario.acquires(1, None));
    scenario.table.abandon(scenario.now, 1);
    scenario.send();
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    scenario.answers(Action::Release, Reply::Done);
    scenario.is_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn the_answer_to_a_renewal_is_not_the_answer_to_the_release_behind_it() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    assert!(held(&mut outcome).is_some());
    scenario.passes(TTL / 2);
    scenario.tick();
    let (response, mut released) = oneshot::channel();
    scenario.table.release(scenario.now, 1, Some(Response::to(response)));
    scenario.send();
    scenario.answers(RENEW, Reply::Done);
    assert!(released.try_recv().is_err(), "not yet");
    assert!(!scenario.table.is_idle());
    scenario.answers(Action::Release, Reply::NotHeld);
    assert_eq!(released.try_recv(), Ok(Ok(ReleaseOutcome::AlreadyLost)));
}

#[test]
fn a_release_whose_answer_was_lost_is_repeated_and_counts() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    assert!(held(&mut outcome).is_some());
    let (response, mut released) = oneshot::channel();
    scenario.table.release(scenario.now, 1, Some(Response::to(response)));
    scenario.send();
    scenario.sent.clear();
    scenario.table.disconnected("cut".into());
    scenario
        .table
        .connected(scenario.now, Abilities { hands_over: true, tracks_changes: false, votes: false });
    scenario.send();
    // The first one had been executed.
    scenario.answers(Action::Release, Reply::NotHeld);
    assert_eq!(released.try_recv(), Ok(Ok(ReleaseOutcome::Released)));
}

#[test]
fn after_a_reconnect_everybody_asks_again_and_holders_compare() {
    let mut scenario = Scenario::connected();
    let mut holder = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    let lease = held(&mut holder);
    let mut waiter = queued(2, &mut scenario);
    scenario.table.disconnected("cut".into());
    scenario.is_quiet();
    scenario
        .table
        .connected(scenario.now, Abilities { hands_over: true, tracks_changes: false, votes: false });
    scenario.send();
    scenario.answers(RENEW, Reply::NotHeld);
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now).is_none()), "it was gone: lost");
    scenario.answers(REJOIN, Reply::Granted { fence: 2 });
    assert!(held(&mut waiter).is_some());
}

#[test]
fn a_lease_ends_when_no_renewal_is_answered() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    let lease = held(&mut outcome);
    scenario.table.disconnected("cut".into());
    scenario.passes(TTL);
    scenario.tick();
    assert!(lease.is_some_and(|lease| lease.ended().is_cancelled()));
    // Connected again too late: it is given back, not renewed.
    scenario
        .table
        .connected(scenario.now, Abilities { hands_over: true, tracks_changes: false, votes: false });
    scenario.send();
    scenario.answers(Action::Release, Reply::NotHeld);
    assert!(scenario.table.is_idle());
}

#[test]
fn one_try_is_one_request() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, Some(Duration::ZERO));
    let busy = Reply::Busy { holder: Holder::default(), place: None };
    scenario.answers(Action::Acquire(Mode::OneTry), busy);
    assert!(matches!(outcome.try_recv(), Ok(AcquireOutcome::Failed(LockError::Busy { .. }))));
    scenario.is_quiet();
    assert!(scenario.table.is_idle());
}

#[test]
fn one_try_hears_at_once_that_there_is_no_server() {
    let mut scenario = Scenario::connected();
    scenario.table.disconnected("cut".into());
    let mut trying = scenario.acquires(1, Some(Duration::ZERO));
    let mut waiting = scenario.acquires(2, None);
    assert!(trying.try_recv().is_err(), "an idle connection may have been cut: it is made anew first");
    let refused = Disconnected { reason: "connection refused".into(), is_permanent: false };
    scenario.table.unreachable(scenario.now, refused);
    assert!(matches!(trying.try_recv(), Ok(AcquireOutcome::Failed(LockError::Unavailable { .. }))));
    assert!(waiting.try_recv().is_err(), "who waits goes on waiting");
}

#[test]
fn only_the_first_of_a_process_asks_again() {
    let mut scenario = Scenario::connected();
    let outcomes: Vec<_> = (1..=5).map(|id| queued(id, &mut scenario)).collect();
    for _ in 0..10 {
        scenario.passes(2 * SECOND);
        scenario.tick();
        assert!(matches!(scenario.sent.as_slice(), [(1, ..)]), "{} asked", scenario.sent.len());
        let busy = scenario.busy(0);
        scenario.answers(AGAIN, busy);
    }
    drop(outcomes);
    scenario.table.abandon(scenario.now, 1);
    scenario.send();
    scenario.answers(Action::Release, Reply::NotHeld);
    scenario.passes(2 * SECOND);
    scenario.tick();
    assert!(matches!(scenario.sent.as_slice(), [(2, ..)]), "then the next one does");
}

#[test]
fn the_new_head_looks_when_the_claim_in_front_is_over() {
    let mut scenario = Scenario::connected();
    let outcomes: Vec<_> = (1..=2).map(|id| queued(id, &mut scenario)).collect();
    let claimant = Claimant::of("inbox");
    let kind = PushKind::Next { claim: CLAIM, claimant };
    let push = Push { token: Token::from_value("token 2"), name: "lock:k".into(), kind };
    scenario.table.on_push(scenario.now, &push);
    scenario.passes(CLAIM / 10);
    scenario.tick();
    scenario.is_quiet();
    scenario.passes(CLAIM);
    scenario.tick();
    assert!(scenario.sent.iter().any(|(id, _, request)| *id == 2 && request.action == Action::Acquire(Mode::Overdue { claimant })));
    drop(outcomes);
}

/// The node tells of a change of the lock.
fn changes(scenario: &mut Scenario) {
    scenario.table.changed(scenario.now, Some(&["lock:k".into()]));
    scenario.send();
}

#[test]
fn without_hand_off_a_change_wakes_the_first_in_line() {
    let mut scenario = Scenario::with(Abilities { hands_over: false, tracks_changes: true, votes: false });
    let outcomes = [scenario.acquires(1, None), scenario.acquires(2, None)];
    let busy =
        || Reply::Busy { holder: Holder { name: Some("host:1".into()), expires_in: Some(TTL) }, place: None };
    scenario.answers(JOIN, busy());
    scenario.answers(Action::WatchHolder, Reply::NotHeld);
    scenario.is_quiet();
    scenario.passes(SECOND / 5);
    scenario.tick();
    scenario.is_quiet();
    changes(&mut scenario);
    assert!(matches!(scenario.sent.as_slice(), [(1, ..)]), "the first asks, and it alone");
    scenario.answers(JOIN, busy());
    // It became free before the node began to watch.
    scenario.answers(Action::WatchHolder, Reply::Free);
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    drop(outcomes);
}

#[test]
fn the_head_of_the_queue_watches_a_holder_of_another_kind() {
    let mut scenario = Scenario::with(Abilities { hands_over: true, tracks_changes: true, votes: false });
    let foreign = |in_front| Reply::Busy {
        holder: Holder { name: None, expires_in: None },
        place: Some(Place { in_front, at: ServerTime(SERVER_START) }),
    };
    let outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, foreign(1));
    scenario.is_quiet();
    scenario.passes(2 * SECOND);
    scenario.tick();
    scenario.answers(AGAIN, foreign(0));
    scenario.answers(Action::WatchHolder, Reply::NotHeld);
    changes(&mut scenario);
    scenario.answers(AGAIN, Reply::Granted { fence: 1 });
    drop(outcome);
}

#[test]
fn a_node_that_does_not_watch_after_all_is_asked_more_often() {
    let mut scenario = Scenario::with(Abilities { hands_over: false, tracks_changes: true, votes: false });
    let outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Busy { holder: Holder { name: None, expires_in: None }, place: None });
    scenario.answers(Action::WatchHolder, Reply::Refused(Refusal::Permanent("NOPERM".into())));
    scenario.is_quiet();
    scenario.passes(SECOND / 10);
    scenario.tick();
    assert_eq!(scenario.sent.len(), 1);
    drop(outcome);
}

/// Over a quorum the answers of two requests may cross: one is decided by the first nodes, one waits for the last.
#[test]
fn what_a_waiter_looked_at_says_nothing_of_the_lock_that_it_got_since() {
    let mut scenario = Scenario::with(Abilities { hands_over: false, tracks_changes: true, votes: true });
    let mut outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Busy { holder: Holder { name: None, expires_in: None }, place: None });
    let looked = scenario.next();
    changes(&mut scenario);
    scenario.passes(SECOND / 10);
    scenario.tick();
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    let lease = held(&mut outcome);
    let Some((id, sent, request)) = looked else { unreachable!("it looks when it waits") };
    scenario.table.reply(scenario.now, id, sent, &request, Reply::Free);
    assert!(lease.is_some_and(|lease| lease.remaining(scenario.now).is_some()));
    // What it looks at itself, does. What is left on a few nodes is given back.
    scenario.table.watch(1);
    scenario.send();
    scenario.answers(Action::Watch, Reply::NotHeld);
    assert!(matches!(scenario.sent.as_slice(), [(1, _, Request { action: Action::Release, .. })]));
}

#[test]
fn a_grant_from_another_server_than_the_place_is_confirmed_first() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    let mut slots = Slots::none();
    slots.insert(Slot::of("lock:other"));
    scenario.table.returned(scenario.now, &slots);
    scenario.send();
    scenario.is_quiet();
    slots.insert(Slot::of("lock:k"));
    scenario.table.returned(scenario.now, &slots);
    scenario.send();
    // Its clock is not the one that told the place.
    scenario.grants(1, scenario.server_time());
    assert!(held(&mut outcome).is_none());
    scenario.answers(REJOIN, Reply::Granted { fence: 7 });
    assert!(held(&mut outcome).is_some());
}

/// After a failover the next connection leads to a server with another clock, and the queue may be there, too.
#[test]
fn a_grant_over_the_next_connection_is_confirmed_first() {
    let mut scenario = Scenario::connected();
    let mut outcome = queued(1, &mut scenario);
    scenario.table.disconnected("cut".into());
    scenario
        .table
        .connected(scenario.now, Abilities { hands_over: true, tracks_changes: false, votes: false });
    scenario.send();
    scenario.grants(1, scenario.server_time());
    assert!(held(&mut outcome).is_none());
    scenario.answers(REJOIN, Reply::Granted { fence: 7 });
    assert!(held(&mut outcome).is_some());
}

#[test]
fn a_release_whose_answer_was_lost_with_a_node_of_a_cluster_was_done() {
    let mut scenario = Scenario::connected();
    let mut outcome = scenario.acquires(1, None);
    scenario.answers(JOIN, Reply::Granted { fence: 1 });
    assert!(held(&mut outcome).is_some());
    let (response, mut released) = oneshot::channel();
    scenario.table.release(scenario.now, 1, Some(Response::to(response)));
    scenario.send();
    scenario.answers(Action::Release, Reply::Refused(Refusal::OutcomeUnknown("the node is away".into())));
    scenario.passes(SECOND / 2);
    scenario.tick();
    // It had been done before: nobody took the lock away.
    scenario.answers(Action::Release, Reply::NotHeld);
    assert!(matches!(released.try_recv(), Ok(Ok(ReleaseOutcome::Released))));
}
