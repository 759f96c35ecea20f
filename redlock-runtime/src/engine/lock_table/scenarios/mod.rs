//! The table driven by hand: each command, reply, push and tick in a chosen order, without a node
//! or a clock.

mod announcing;
mod asking;
mod backlog;
mod closing;
mod cohort;
mod counted;
mod direct;
mod downgrading;
mod followers;
mod forgotten;
mod granted;
mod limit;
mod long_waits;
mod losing;
mod marked;
mod multi_key;
mod once;
mod pinging;
mod releasing;
mod renewing;
mod tickets;
mod ticks;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::{self, error::TryRecvError};

use super::LockTable;
use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::base::error::{Holder, LockError};
use crate::base::lease::Lease;
use crate::base::outcome::LostReason;
use crate::base::outcome::ReleaseOutcome;
use crate::base::owner::Owner;
use crate::base::token::Token;
use crate::engine::EngineSettings;
use crate::engine::command::{
    self, AcquireOutcome, Ask, Command, HoldLimits, OperatorRequest, Response, WaitDeadline,
};
use crate::engine::protocol::{
    Action, CLAIM, Disconnected, Id, Kind, Mode, Place, Push, PushKind, QUEUE_TTL, Refusal, Reply, Request,
    ServerTime, Verdict,
};
use crate::engine::slots::{Slot, Slots};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);
const JOIN: Action = Action::Acquire(Mode::Join { at_most: 10 });
const JOIN_AGAIN: Action = Action::Acquire(Mode::JoinAgain { at_most: 10 });
const AGAIN: Action = Action::Acquire(Mode::Again);
const RENEW: Action = Action::Renew { nth: 0, shortens: false };
const REJOIN: Action = Action::Acquire(Mode::Rejoin);
const SERVER_START: u64 = 1_000_000_000;

type Outcome = oneshot::Receiver<AcquireOutcome>;

/// A caller that waits for the end of its release.
struct Released(oneshot::Receiver<command::Released>);

impl Released {
    fn try_recv(&mut self) -> Result<Result<ReleaseOutcome, LockError>, TryRecvError> {
        self.0.try_recv().map(|released| released.outcome.map_err(|error| *error))
    }
}

const NEITHER: Abilities =
    Abilities { hands_over: false, tracks_changes: false, votes: false, may_evict: false };
const HANDS_OVER: Abilities = Abilities { hands_over: true, ..NEITHER };
const TRACKS: Abilities = Abilities { tracks_changes: true, ..NEITHER };
const HANDS_OVER_AND_TRACKS: Abilities =
    Abilities { hands_over: true, tracks_changes: true, votes: false, may_evict: false };

/// A table, its time, and the requests that are unanswered.
struct Scenario {
    table: LockTable,
    start: Moment,
    now: Moment,
    sent: Vec<(Id, Moment, Request)>,
}

impl Scenario {
    fn connected() -> Self {
        Self::with(HANDS_OVER)
    }

    fn with(abilities: Abilities) -> Self {
        let now = Moment::now();
        let mut table = LockTable::new(EngineSettings::for_a_test());
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

    /// An operator asks.
    fn calls(&mut self, id: Id, action: Action, name: &str) -> oneshot::Receiver<Result<Reply, LockError>> {
        self.calls_with(id, Request::new(action, name.into(), Token::empty(), Duration::ZERO))
    }

    fn calls_with(&mut self, id: Id, request: Request) -> oneshot::Receiver<Result<Reply, LockError>> {
        let (caller, reply) = oneshot::channel();
        let call = OperatorRequest { key: None, request, by: self.now.after(SECOND), caller };
        self.table.on_command(self.now, Command::Operator { id, call: Box::new(call) });
        self.send();
        reply
    }

    fn send(&mut self) {
        let now = self.now;
        self.sent.extend(self.table.outbox().take_all().map(|(id, request)| (id, now, request)));
    }

    fn acquires(&mut self, id: Id, wait: Option<Duration>) -> Outcome {
        self.acquires_for(id, wait, None)
    }

    fn acquires_for(&mut self, id: Id, wait: Option<Duration>, min_hold: Option<Duration>) -> Outcome {
        let (ask, outcome) = self.ask(wait, min_hold);
        self.table.acquire(self.now, id, ask, token_of(id));
        self.send();
        outcome
    }

    fn ask(&self, wait: Option<Duration>, min_hold: Option<Duration>) -> (Box<Ask>, Outcome) {
        let (caller, outcome) = oneshot::channel();
        let ask = Box::new(Ask {
            key: "k".into(),
            hold: HoldLimits { min: min_hold, ..HoldLimits::default() },
            deadline: WaitDeadline {
                started: self.now,
                one_try: wait == Some(Duration::ZERO),
                gives_up_at: wait.map(|wait| self.now.after(wait.max(SECOND))),
            },
            ..Ask::for_a_test("lock:k", TTL, self.now, Some(caller))
        });
        (ask, outcome)
    }

    /// The oldest unanswered request.
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
        let holder =
            Holder { owner: Some(Owner::read("host:1")), expires_in: Some(TTL), ..Holder::default() };
        Reply::Acquire(Verdict::Busy { holder, place: Some(Place { in_front, at: self.server_time() }) })
    }

    fn server_time(&self) -> ServerTime {
        let elapsed = self.now.since(self.start).as_micros();
        ServerTime(SERVER_START + u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    /// A grant that the node pushed at `at` arrives now.
    fn grants(&mut self, id: Id, at: ServerTime) {
        self.tells(id, PushKind::Granted { fence: 7, at, marked: false });
    }

    fn tells(&mut self, id: Id, kind: PushKind) {
        let token = Token::from_value(&format!("token {id}"));
        self.table.on_push(
            self.now,
            &Push { token, name: "lock:k".into(), kind, followers: "".into(), is_undercut: false },
        );
        self.send();
    }

    #[track_caller]
    fn assert_quiet(&self) {
        let actions: Vec<_> = self.sent.iter().map(|(_, _, request)| request.action).collect();
        assert!(actions.is_empty(), "{actions:?}");
    }

    /// There is a connection again; nothing is sent yet.
    fn connects(&mut self) {
        self.table.connected(self.now, HANDS_OVER);
    }

    #[track_caller]
    fn holds(&mut self, id: Id) -> Arc<Lease> {
        let mut outcome = self.acquires(id, None);
        self.answers(JOIN, Reply::Acquire(Verdict::Granted { fence: 1 }));
        let Some(lease) = held(&mut outcome) else { unreachable!("it is granted") };
        lease
    }

    fn abandons(&mut self, id: Id) {
        self.table.on_command(self.now, Command::Abandon { id });
        self.send();
    }

    fn drops_guard(&mut self, id: Id) {
        self.table.on_command(self.now, Command::Release { id, response: None });
        self.send();
    }

    fn releases(&mut self, id: Id) -> Released {
        let (caller, released) = oneshot::channel();
        self.table.on_command(self.now, Command::Release { id, response: Some(Response::to(caller)) });
        self.send();
        Released(released)
    }

    /// The guard leaves the lock to a ticket, for ten seconds.
    fn hands_over(&mut self, id: Id) -> oneshot::Receiver<command::Released> {
        let (caller, released) = oneshot::channel();
        self.table.on_command(
            self.now,
            Command::HandOver { id, lasts: 10 * SECOND, response: Response::to(caller) },
        );
        self.send();
        released
    }

    /// The ticket of attempt 1 is redeemed.
    fn redeems(&mut self, id: Id) -> Outcome {
        let (mut ask, outcome) = self.ask(Some(SECOND), None);
        ask.kind = Kind::Ticket(Box::new(token_of(1)));
        self.table.acquire(self.now, id, ask, token_of(id));
        self.send();
        outcome
    }

    /// The node reports a change of the lock.
    fn changes(&mut self) {
        self.table.changed(self.now, Some(&["lock:k".into()]));
        self.send();
    }

    /// The unanswered requests.
    fn unanswered(&self) -> Vec<(Id, Action)> {
        self.sent.iter().map(|(id, _, request)| (*id, request.action)).collect()
    }
}

fn held(outcome: &mut Outcome) -> Option<Arc<Lease>> {
    match outcome.try_recv() {
        Ok(AcquireOutcome::Held(lease, _)) => Some(lease),
        _ => None,
    }
}

fn failed(outcome: &mut Outcome) -> Option<LockError> {
    match outcome.try_recv() {
        Ok(AcquireOutcome::Failed(error)) => Some(*error),
        _ => None,
    }
}

fn queued(id: Id, scenario: &mut Scenario) -> Outcome {
    let outcome = scenario.acquires(id, None);
    let busy = scenario.busy(0);
    scenario.answers(JOIN, busy);
    outcome
}

fn token_of(id: Id) -> Token {
    Token::from_value(&format!("token {id}"))
}
