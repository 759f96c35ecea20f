//! What the locks of a table share. Each method of a lock borrows it for one event.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::lock::queue::Remembered;
use crate::base::capabilities::Abilities;
use crate::base::clock::Moment;
use crate::base::host::HashMap;
use crate::base::token::Token;
use crate::engine::EngineSettings;
use crate::engine::command::Unconfirmed;
use crate::engine::hold_times::HoldTimes;
use crate::engine::outbox::Outbox;
use crate::engine::protocol::{Disconnected, Id};
use crate::engine::timers::Timers;

/// Its fields are what the methods of a lock take beside the lock: any of them may use each.
pub(super) struct Context {
    /// The time of the event.
    pub(super) now: Moment,
    pub(super) settings: EngineSettings,
    pub(super) outbox: Outbox,
    pub(super) timers: Timers,
    pub(super) attempts: AttemptIndex,
    pub(super) contended: Remembered,
    /// The locks whose callers differ in how many they let in, as was reported.
    pub(super) differing: Remembered,
    pub(super) connection: Connection,
    pub(super) abilities: Abilities,
    pub(super) hold_times: HoldTimes,
    pub(super) own_requests: OwnRequests,
    /// Granted locks that their replicas must confirm.
    pub(super) unconfirmed: Vec<Unconfirmed>,
}

impl Context {
    pub(super) fn new(settings: EngineSettings) -> Self {
        Self {
            // Each event brings its time.
            now: Moment::from_nanos(0),
            settings,
            outbox: Outbox::default(),
            timers: Timers::default(),
            attempts: AttemptIndex::default(),
            contended: Remembered::default(),
            differing: Remembered::default(),
            connection: Connection::new(settings.io_timeout),
            abilities: Abilities { hands_over: false, tracks_changes: false, votes: false, may_evict: false },
            hold_times: HoldTimes::default(),
            own_requests: OwnRequests::default(),
            unconfirmed: Vec::new(),
        }
    }

    /// True when each waiter of this process has its own place in the queue on the server.
    pub(super) fn queues_on_server(&self) -> bool {
        self.abilities.hands_over && self.settings.cohort == 0
    }

    /// The attempt is over.
    pub(super) fn forget(&mut self, id: Id) {
        self.attempts.locks.remove(&id);
        self.timers.set(id, None);
    }
}

/// The attempts of all locks.
#[derive(Default)]
pub(super) struct AttemptIndex {
    /// The lock of each.
    locks: HashMap<Id, Arc<str>>,
    /// Those that may get a push: they wait on the server, or are being released after that.
    by_token: HashMap<Token, Id>,
}

impl AttemptIndex {
    pub(super) fn insert(&mut self, id: Id, lock: &Arc<str>) {
        self.locks.insert(id, Arc::clone(lock));
    }

    pub(super) fn lock_of(&self, id: Id) -> Option<&Arc<str>> {
        self.locks.get(&id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = Id> {
        self.locks.keys().copied()
    }

    pub(super) fn count(&self) -> usize {
        self.locks.len()
    }

    /// A push may come for this token.
    pub(super) fn expect_push(&mut self, token: &Token, id: Id) {
        self.by_token.insert(token.clone(), id);
    }

    /// The attempt for which a push with this token is.
    pub(super) fn expecting(&self, token: &Token) -> Option<Id> {
        self.by_token.get(token).copied()
    }

    /// True when any may get a push.
    pub(super) fn expect_any(&self) -> bool {
        !self.by_token.is_empty()
    }

    /// No push is expected for this token any more.
    pub(super) fn forget_token(&mut self, token: &Token) {
        // An empty map makes the hash all the same, here and below.
        if self.expect_any() {
            self.by_token.remove(token);
        }
    }
}

/// The requests of the table itself, without a caller.
pub(super) struct OwnRequests {
    /// The last id. Counts down: the ids of callers count up.
    last_id: Id,
    /// Those that ask who holds a lock, each with the waiter that it is for.
    questions: HashMap<Id, Id>,
}

impl Default for OwnRequests {
    fn default() -> Self {
        Self { last_id: Id::MAX, questions: HashMap::default() }
    }
}

impl OwnRequests {
    pub(super) fn new_id(&mut self) -> Id {
        self.last_id -= 1;
        self.last_id
    }

    /// The id of a question that is asked for this waiter.
    pub(super) fn new_question(&mut self, waiter: Id) -> Id {
        let id = self.new_id();
        self.questions.insert(id, waiter);
        id
    }

    /// The waiter for which this question was asked, which is answered.
    pub(super) fn take_question(&mut self, id: Id) -> Option<Id> {
        if self.questions.is_empty() { None } else { self.questions.remove(&id) }
    }

    /// The waiters whose questions are unanswered, and will not be answered.
    pub(super) fn take_unanswered(&mut self) -> impl Iterator<Item = Id> + use<> {
        std::mem::take(&mut self.questions).into_values()
    }
}

/// The connection, as far as the table was told.
pub(super) struct Connection {
    is_up: bool,
    /// The reason that there is no connection; `None` while there is one, and before the first has
    /// failed.
    trouble: Option<Disconnected>,
    /// The reason for the end of the last connection.
    broke: Arc<str>,
    answer_time: AnswerTime,
    /// The callers of connect.
    callers: Vec<oneshot::Sender<Result<Abilities, Disconnected>>>,
}

impl Connection {
    fn new(io_timeout: Duration) -> Self {
        let broke = "not connected to Redis yet".into();
        let answer_time = AnswerTime::new(io_timeout);
        Self { is_up: false, trouble: None, broke, answer_time, callers: Vec::new() }
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Why connecting has failed since the last connection.
    pub(super) fn trouble(&self) -> Option<&Disconnected> {
        self.trouble.as_ref()
    }

    /// Why the last connection has ended.
    pub(super) fn broke(&self) -> &Arc<str> {
        &self.broke
    }

    pub(super) fn answer_time(&self) -> AnswerTime {
        self.answer_time
    }

    /// Tells this caller that there is a connection, or why there is none, as soon as either is
    /// known.
    pub(super) fn tell(
        &mut self,
        caller: oneshot::Sender<Result<Abilities, Disconnected>>,
        abilities: Abilities,
    ) {
        match &self.trouble {
            _ if self.is_up => drop(caller.send(Ok(abilities))),
            Some(trouble) => drop(caller.send(Err(trouble.clone()))),
            None => self.callers.push(caller),
        }
    }

    /// True while a caller of connect waits.
    pub(super) fn is_awaited(&self) -> bool {
        !self.callers.is_empty()
    }

    pub(super) fn set_up(&mut self, abilities: Abilities) {
        (self.is_up, self.trouble) = (true, None);
        for caller in self.callers.drain(..) {
            drop(caller.send(Ok(abilities)));
        }
    }

    pub(super) fn set_broken(&mut self, reason: Arc<str>) {
        (self.is_up, self.broke) = (false, reason);
    }

    pub(super) fn set_trouble(&mut self, trouble: Disconnected) {
        for caller in self.callers.drain(..) {
            drop(caller.send(Err(trouble.clone())));
        }
        self.trouble = Some(trouble);
    }

    /// One answer took so long.
    pub(super) fn learn_answer_time(&mut self, took: Duration) {
        self.answer_time.learn(took);
    }
}

/// How long answers take.
#[derive(Clone, Copy)]
pub(super) struct AnswerTime {
    usual: Duration,
    /// An answer that takes longer is late, unless they usually take half as long.
    late: Duration,
    /// No answer is awaited for longer.
    limit: Duration,
}

impl AnswerTime {
    fn new(io_timeout: Duration) -> Self {
        Self { usual: Duration::ZERO, late: io_timeout / 4, limit: io_timeout }
    }

    /// One answer took so long.
    fn learn(&mut self, took: Duration) {
        self.usual = if self.usual.is_zero() { took } else { (7 * self.usual + took) / 8 };
    }

    pub(super) fn usual(self) -> Duration {
        self.usual.min(self.limit)
    }

    pub(super) fn late(self) -> Duration {
        self.late.max(2 * self.usual).min(self.limit)
    }
}
