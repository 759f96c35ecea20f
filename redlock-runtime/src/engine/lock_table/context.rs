//! What the locks of a table share. Each method of a lock borrows it for one event.

use std::sync::Arc;
use std::time::Duration;

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
    /// The lock of each attempt.
    pub(super) attempts: HashMap<Id, Arc<str>>,
    /// The attempts that may get a push: they wait on the server, or are being released after that.
    pub(super) by_token: HashMap<Token, Id>,
    pub(super) contended: Remembered,
    /// The locks whose callers differ in how many they let in, as was reported.
    pub(super) differing: Remembered,
    pub(super) connected: bool,
    /// The reason that there is no connection; `None` while there is one, and before the first has
    /// failed.
    pub(super) trouble: Option<Disconnected>,
    /// The reason for the end of the last connection.
    pub(super) broke: Arc<str>,
    pub(super) abilities: Abilities,
    pub(super) hold_times: HoldTimes,
    pub(super) answer_time: AnswerTime,
    /// The requests that ask who holds a lock, each with the waiter that it is for.
    pub(super) questions: HashMap<Id, Id>,
    /// Granted locks that their replicas must confirm.
    pub(super) unconfirmed: Vec<Unconfirmed>,
    /// The last id of a request without a caller. Counts down: the ids of callers count up.
    own_ids: Id,
}

impl Context {
    pub(super) fn new(settings: EngineSettings) -> Self {
        Self {
            // Each event brings its time.
            now: Moment::from_nanos(0),
            settings,
            outbox: Outbox::default(),
            timers: Timers::default(),
            attempts: HashMap::default(),
            by_token: HashMap::default(),
            contended: Remembered::default(),
            differing: Remembered::default(),
            connected: false,
            trouble: None,
            broke: "not connected to Redis yet".into(),
            abilities: Abilities { hands_over: false, tracks_changes: false, votes: false },
            hold_times: HoldTimes::default(),
            answer_time: AnswerTime::new(settings.io_timeout),
            questions: HashMap::default(),
            unconfirmed: Vec::new(),
            own_ids: Id::MAX,
        }
    }

    /// True when each waiter of this process has its own place in the queue on the server.
    pub(super) fn queues_on_server(&self) -> bool {
        self.abilities.hands_over && self.settings.cohort == 0
    }

    /// An id for a request without a caller.
    pub(super) fn own_id(&mut self) -> Id {
        self.own_ids -= 1;
        self.own_ids
    }

    /// The waiter for which this question was asked, which is answered.
    pub(super) fn take_question(&mut self, id: Id) -> Option<Id> {
        // An empty map makes the hash all the same.
        if self.questions.is_empty() { None } else { self.questions.remove(&id) }
    }

    /// No push is expected for this token any more.
    pub(super) fn forget_token(&mut self, token: &Token) {
        if !self.by_token.is_empty() {
            self.by_token.remove(token);
        }
    }

    /// The attempt is over.
    pub(super) fn forget(&mut self, id: Id) {
        self.attempts.remove(&id);
        self.timers.set(id, None);
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
    pub(super) fn learn(&mut self, took: Duration) {
        self.usual = if self.usual.is_zero() { took } else { (7 * self.usual + took) / 8 };
    }

    pub(super) fn usual(self) -> Duration {
        self.usual.min(self.limit)
    }

    pub(super) fn late(self) -> Duration {
        self.late.max(2 * self.usual).min(self.limit)
    }
}
