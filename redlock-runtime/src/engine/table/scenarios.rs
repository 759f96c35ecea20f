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

use super::Table;
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::engine::command::{Ask, Response};
use crate::engine::protocol::{
    Action, CLAIM, Claimant, Disconnected, Id, Mode, Notice, Place, Refusal, Reply, Request, ServerTime, What,
};
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

type Outcome = oneshot::Receiver<Result<Arc<Lease>, LockError>>;

/// A table, the time as it sees it, and what it has sent.
struct Script {
    table: Table,
    start: Moment,
    now: Moment,
    sent: Vec<(Id, Moment, Request)>,
}

impl Script {
    fn connected() -> Self {
        Self::with(Abilities { hands_off: true, watches: false, votes: false })
    }

    fn with(abilities: Abilities) -> Self {
        let now = Moment::now();
        let mut table = Table::new(SECOND, 0);
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
            follows: None,
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
        let holder = Holder { name: Some("host:1".into()), free_in: Some(TTL) };
        Reply::Busy { holder, place: Some(Place { in_front, at: self.server_time() }) }
    }

    fn server_time(&self) -> ServerTime {
        let elapsed = self.now.since(self.start).as_micros();
        ServerTime(SERVER_START + u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// A push that the node sent at `at` and that arrives now.
    fn grants(&mut self, id: Id, at: ServerTime) {
        self.tells(id, What::Granted { fence: 7, at });
    }

    fn tells(&mut self, id: Id, what: What) {
        let token = Token::from_value(&format!("token {id}"));
        self.table.notice(self.now, &Notice { token, name: "lock:k".into(), what });
        self.send();
    }

    #[track_caller]
    fn is_quiet(&self) {
        let actions: Vec<_> = self.sent.iter().map(|(_, _, request)| request.action).collect();
        assert!(actions.is_empty(), "{actions:?}");
    }
}

fn held(outcome: &mut Outcome) -> Option<Arc<Lease>> {
    outcome.try_recv().ok()?.ok()
}

fn queued(id: Id, script: &mut Script) -> Outcome {
    let outcome = script.acquires(id, None);
    let busy = script.busy(0);
    script.answers(JOIN, busy);
    outcome
}

#[test]
fn a_caller_that_has_gone_keeps_nothing_for_a_min_hold() {
    let mut script = Script::connected();
    drop(script.acquires_for(1, None, Some(SECOND)));
    script.answers(JOIN, Reply::Held { fence: 7 });
    script.answers(Action::Release, Reply::Done);
}

#[test]
fn a_grant_is_entered_at_once_and_claimed_later() {
    let mut script = Script::connected();
    let mut outcome = queued(1, &mut script);
    script.passes(SECOND / 10);
    let at = script.server_time();
    script.grants(1, at);
    script.is_quiet();
    let lease = held(&mut outcome);
    assert!(lease.as_ref().is_some_and(|lease| lease.remaining(script.now) <= Some(CLAIM)));
    script.passes(CLAIM / 2);
    script.tick();
    script.answers(RENEW, Reply::Done);
    assert!(lease.is_some_and(|lease| lease.remaining(script.now) > Some(TTL / 2)));
}

#[test]
fn a_body_that_is_quick_is_never_claimed() {
    let mut script = Script::connected();
    let mut outcome = queued(1, &mut script);
    let at = script.server_time();
    script.grants(1, at);
    assert!(held(&mut outcome).is_some());
    script.table.release(script.now, 1, None);
    script.send();
    script.answers(Action::Release, Reply::Done);
    assert!(script.table.is_idle());
}

#[test]
fn a_grant_that_was_slept_over_is_asked_about_and_not_entered() {
    let mut script = Script::connected();
    let mut outcome = queued(1, &mut script);
    let at = script.server_time();
    script.passes(CLAIM);
    script.grants(1, at);
    assert!(held(&mut outcome).is_none());
    // The server has passed it on meanwhile.
    let busy = script.busy(0);
    script.answers(AGAIN, busy);
    assert!(held(&mut outcome).is_none());
}

#[test]
fn a_server_whose_clock_was_set_back_is_not_believed() {
    let mut script = Script::connected();
    let mut outcome = queued(1, &mut script);
    script.passes(SECOND / 10);
    script.grants(1, ServerTime(SERVER_START - 1));
    assert!(held(&mut outcome).is_none());
    script.answers(AGAIN, Reply::Claimed { fence: 8 });
    assert!(held(&mut outcome).is_some_and(|lease| lease.remaining(script.now) <= Some(CLAIM)));
}

#[test]
fn a_grant_for_nobody_goes_back() {
    let mut script = Script::connected();
    let at = script.server_time();
    script.grants(9, at);
    script.answers(Action::Release, Reply::Done);
    assert!(script.table.is_idle());
}

#[test]
fn a_grant_that_crosses_the_callers_leaving_is_given_back_once() {
    let mut script = Script::connected();
    let outcome = queued(1, &mut script);
    drop(outcome);
    script.table.abandon(script.now, 1);
    script.send();
    let at = script.server_time();
    script.grants(1, at);
    script.answers(Action::Release, Reply::Done);
    script.is_quiet();
    assert!(script.table.is_idle());
}

#[test]
fn an_answer_that_took_longer_than_the_lease_is_not_a_lock() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    script.passes(TTL);
    script.answers(JOIN, Reply::Held { fence: 1 });
    assert!(held(&mut outcome).is_none());
    let Some((_, _, release)) = script.next() else { unreachable!("it is given back") };
    assert_eq!(release.action, Action::Release);
    let Some((_, _, fresh)) = script.next() else { unreachable!("it is asked for again") };
    assert_eq!(fresh.action, JOIN);
    assert_ne!(fresh.token, release.token, "a token is never reused");
}

#[test]
fn a_caller_that_leaves_before_the_answer_gives_back_what_it_may_have_got() {
    let mut script = Script::connected();
    drop(script.acquires(1, None));
    script.table.abandon(script.now, 1);
    script.send();
    script.answers(JOIN, Reply::Held { fence: 1 });
    script.answers(Action::Release, Reply::Done);
    script.is_quiet();
    assert!(script.table.is_idle());
}

#[test]
fn the_answer_to_a_renewal_is_not_the_answer_to_the_release_behind_it() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Held { fence: 1 });
    assert!(held(&mut outcome).is_some());
    script.passes(TTL / 2);
    script.tick();
    let (response, mut released) = oneshot::channel();
    script.table.release(script.now, 1, Some(Response::to(response)));
    script.send();
    script.answers(RENEW, Reply::Done);
    assert!(released.try_recv().is_err(), "not yet");
    assert!(!script.table.is_idle());
    script.answers(Action::Release, Reply::NotMine);
    assert_eq!(released.try_recv(), Ok(Ok(ReleaseOutcome::AlreadyLost)));
}

#[test]
fn a_release_whose_answer_was_lost_is_repeated_and_counts() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Held { fence: 1 });
    assert!(held(&mut outcome).is_some());
    let (response, mut released) = oneshot::channel();
    script.table.release(script.now, 1, Some(Response::to(response)));
    script.send();
    script.sent.clear();
    script.table.disconnected("cut".into());
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.send();
    // The first one had been executed.
    script.answers(Action::Release, Reply::NotMine);
    assert_eq!(released.try_recv(), Ok(Ok(ReleaseOutcome::Released)));
}

#[test]
fn after_a_reconnect_everybody_asks_again_and_holders_compare() {
    let mut script = Script::connected();
    let mut holder = script.acquires(1, None);
    script.answers(JOIN, Reply::Held { fence: 1 });
    let lease = held(&mut holder);
    let mut waiter = queued(2, &mut script);
    script.table.disconnected("cut".into());
    script.is_quiet();
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.send();
    script.answers(RENEW, Reply::NotMine);
    assert!(lease.is_some_and(|lease| lease.remaining(script.now).is_none()), "it was gone: lost");
    script.answers(REJOIN, Reply::Held { fence: 2 });
    assert!(held(&mut waiter).is_some());
}

#[test]
fn a_lease_ends_when_no_renewal_is_answered() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Held { fence: 1 });
    let lease = held(&mut outcome);
    script.table.disconnected("cut".into());
    script.passes(TTL);
    script.tick();
    assert!(lease.is_some_and(|lease| lease.ended().is_cancelled()));
    // Connected again too late: it is given back, not renewed.
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.send();
    script.answers(Action::Release, Reply::NotMine);
    assert!(script.table.is_idle());
}

#[test]
fn one_try_is_one_request() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, Some(Duration::ZERO));
    let busy = Reply::Busy { holder: Holder::default(), place: None };
    script.answers(Action::Acquire(Mode::OneTry), busy);
    assert!(matches!(outcome.try_recv(), Ok(Err(LockError::Busy { .. }))));
    script.is_quiet();
    assert!(script.table.is_idle());
}

#[test]
fn one_try_hears_at_once_that_there_is_no_server() {
    let mut script = Script::connected();
    script.table.disconnected("cut".into());
    let mut trying = script.acquires(1, Some(Duration::ZERO));
    let mut waiting = script.acquires(2, None);
    assert!(trying.try_recv().is_err(), "an idle connection may have been cut: it is made anew first");
    let refused = Disconnected { reason: "connection refused".into(), turned_away: false };
    script.table.unreachable(script.now, refused);
    assert!(matches!(trying.try_recv(), Ok(Err(LockError::Unavailable { .. }))));
    assert!(waiting.try_recv().is_err(), "who waits goes on waiting");
}

#[test]
fn only_the_first_of_a_process_asks_again() {
    let mut script = Script::connected();
    let outcomes: Vec<_> = (1..=5).map(|id| queued(id, &mut script)).collect();
    for _ in 0..10 {
        script.passes(2 * SECOND);
        script.tick();
        assert!(matches!(script.sent.as_slice(), [(1, ..)]), "{} asked", script.sent.len());
        let busy = script.busy(0);
        script.answers(AGAIN, busy);
    }
    drop(outcomes);
    script.table.abandon(script.now, 1);
    script.send();
    script.answers(Action::Release, Reply::NotMine);
    script.passes(2 * SECOND);
    script.tick();
    assert!(matches!(script.sent.as_slice(), [(2, ..)]), "then the next one does");
}

#[test]
fn the_new_head_looks_when_the_claim_in_front_is_over() {
    let mut script = Script::connected();
    let outcomes: Vec<_> = (1..=2).map(|id| queued(id, &mut script)).collect();
    let claimant = Claimant::of("inbox");
    let what = What::Next { claim: CLAIM, claimant };
    let notice = Notice { token: Token::from_value("token 2"), name: "lock:k".into(), what };
    script.table.notice(script.now, &notice);
    script.passes(CLAIM / 10);
    script.tick();
    script.is_quiet();
    script.passes(CLAIM);
    script.tick();
    assert!(script.sent.iter().any(|(id, _, request)| *id == 2 && request.action == Action::Acquire(Mode::Overdue { claimant })));
    drop(outcomes);
}

/// The node tells of a change of the lock.
fn changes(script: &mut Script) {
    script.table.changed(script.now, Some(&["lock:k".into()]));
    script.send();
}

#[test]
fn without_hand_off_a_change_wakes_the_first_in_line() {
    let mut script = Script::with(Abilities { hands_off: false, watches: true, votes: false });
    let outcomes = [script.acquires(1, None), script.acquires(2, None)];
    let busy =
        || Reply::Busy { holder: Holder { name: Some("host:1".into()), free_in: Some(TTL) }, place: None };
    script.answers(JOIN, busy());
    script.answers(Action::WatchHolder, Reply::NotMine);
    script.is_quiet();
    script.passes(SECOND / 5);
    script.tick();
    script.is_quiet();
    changes(&mut script);
    assert!(matches!(script.sent.as_slice(), [(1, ..)]), "the first asks, and it alone");
    script.answers(JOIN, busy());
    // It became free before the node began to watch.
    script.answers(Action::WatchHolder, Reply::Nobodys);
    script.answers(JOIN, Reply::Held { fence: 1 });
    drop(outcomes);
}

#[test]
fn the_head_of_the_queue_watches_a_holder_of_another_kind() {
    let mut script = Script::with(Abilities { hands_off: true, watches: true, votes: false });
    let foreign = |in_front| Reply::Busy {
        holder: Holder { name: None, free_in: None },
        place: Some(Place { in_front, at: ServerTime(SERVER_START) }),
    };
    let outcome = script.acquires(1, None);
    script.answers(JOIN, foreign(1));
    script.is_quiet();
    script.passes(2 * SECOND);
    script.tick();
    script.answers(AGAIN, foreign(0));
    script.answers(Action::WatchHolder, Reply::NotMine);
    changes(&mut script);
    script.answers(AGAIN, Reply::Held { fence: 1 });
    drop(outcome);
}

#[test]
fn a_node_that_does_not_watch_after_all_is_asked_more_often() {
    let mut script = Script::with(Abilities { hands_off: false, watches: true, votes: false });
    let outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Busy { holder: Holder { name: None, free_in: None }, place: None });
    script.answers(Action::WatchHolder, Reply::Refused(Refusal::Never("NOPERM".into())));
    script.is_quiet();
    script.passes(SECOND / 10);
    script.tick();
    assert_eq!(script.sent.len(), 1);
    drop(outcome);
}

/// Over a quorum the answers of two requests may cross: one is decided by the first nodes, one waits for the last.
#[test]
fn what_a_waiter_looked_at_says_nothing_of_the_lock_that_it_got_since() {
    let mut script = Script::with(Abilities { hands_off: false, watches: true, votes: true });
    let mut outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Busy { holder: Holder { name: None, free_in: None }, place: None });
    let looked = script.next();
    changes(&mut script);
    script.passes(SECOND / 10);
    script.tick();
    script.answers(JOIN, Reply::Held { fence: 1 });
    let lease = held(&mut outcome);
    let Some((id, sent, request)) = looked else { unreachable!("it looks when it waits") };
    script.table.reply(script.now, id, sent, &request, Reply::Nobodys);
    assert!(lease.is_some_and(|lease| lease.remaining(script.now).is_some()));
    // What it looks at itself, does. What is left on a few nodes is given back.
    script.table.watch(1);
    script.send();
    script.answers(Action::Watch, Reply::NotMine);
    assert!(matches!(script.sent.as_slice(), [(1, _, Request { action: Action::Release, .. })]));
}

#[test]
fn a_grant_from_another_server_than_the_place_is_confirmed_first() {
    let mut script = Script::connected();
    let mut outcome = queued(1, &mut script);
    let mut slots = Slots::none();
    slots.insert(Slot::of("lock:other"));
    script.table.returned(script.now, &slots);
    script.send();
    script.is_quiet();
    slots.insert(Slot::of("lock:k"));
    script.table.returned(script.now, &slots);
    script.send();
    // Its clock is not the one that told the place.
    script.grants(1, script.server_time());
    assert!(held(&mut outcome).is_none());
    script.answers(REJOIN, Reply::Held { fence: 7 });
    assert!(held(&mut outcome).is_some());
}

/// After a failover the next connection leads to a server with another clock, and the queue may be there, too.
#[test]
fn a_grant_over_the_next_connection_is_confirmed_first() {
    let mut script = Script::connected();
    let mut outcome = queued(1, &mut script);
    script.table.disconnected("cut".into());
    script.table.connected(script.now, Abilities { hands_off: true, watches: false, votes: false });
    script.send();
    script.grants(1, script.server_time());
    assert!(held(&mut outcome).is_none());
    script.answers(REJOIN, Reply::Held { fence: 7 });
    assert!(held(&mut outcome).is_some());
}

#[test]
fn a_release_whose_answer_was_lost_with_a_node_of_a_cluster_was_done() {
    let mut script = Script::connected();
    let mut outcome = script.acquires(1, None);
    script.answers(JOIN, Reply::Held { fence: 1 });
    assert!(held(&mut outcome).is_some());
    let (response, mut released) = oneshot::channel();
    script.table.release(script.now, 1, Some(Response::to(response)));
    script.send();
    script.answers(Action::Release, Reply::Refused(Refusal::Unanswered("the node is away".into())));
    script.passes(SECOND / 2);
    script.tick();
    // It had been done before: nobody took the lock away.
    script.answers(Action::Release, Reply::NotMine);
    assert!(matches!(released.try_recv(), Ok(Ok(ReleaseOutcome::Released))));
}
