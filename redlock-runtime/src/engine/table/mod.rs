//! The lock table: each attempt of this process, from its first request to its last release.
//!
//! It has no I/O and no clock: commands, replies and the time come in, requests and outcomes go out. An attempt is
//! *waiting* (for a reply, for its turn in this process or on the server, for the time to ask again, or for a
//! connection), then *held*, then *releasing*, then gone.

mod admin;
pub(crate) mod closing;
mod cohort;
mod connection;
mod contended;
mod coverage;
mod late_fence;
mod lock;
mod long_wait;
mod multi_key;
mod on_push;
mod on_reply;
mod replication;
mod reports;
mod reserved_fences;
#[cfg(test)]
mod scenarios;
mod timeout_error;

use std::sync::Arc;

use crate::ground::host::HashMap;
use foldhash::HashMapExt;

use super::command::AdminCall;
use super::hold_times::HoldTimes;
use super::outbox::Outbox;
use super::protocol::{Disconnected, Id, Request, Unconfirmed};
use super::settings::TableSettings;
use super::timers::Timers;
use crate::ground::capabilities::Abilities;
use crate::ground::clock::Moment;
use crate::ground::outcome::LostReason;
use crate::ground::token::Token;
use contended::Contended;
use late_fence::LateFences;
use lock::held::Held;
use lock::queue::Queues;
use lock::releasing::Releasing;
use lock::waiting::Waiting;
use long_wait::LongWaits;
use timeout_error::{AnswerTime, LastWords};

/// Boxed: the map of attempts is up to half empty, and each room in it is as large as the largest of them.
enum Attempt {
    Waiting(Box<Waiting>),
    Held(Box<Held>),
    Releasing(Box<Releasing>),
}

impl Attempt {
    /// The time of its next [`tick`](LockTable::tick).
    fn due(&self) -> Option<Moment> {
        match self {
            Self::Waiting(waiting) => waiting.due(),
            Self::Held(held) => held.due(),
            Self::Releasing(releasing) => Some(releasing.due()),
        }
    }
}

pub(crate) struct LockTable {
    attempts: HashMap<Id, Attempt>,
    queues: Queues,
    contended: Contended,
    hold_times: HoldTimes,
    late_fences: LateFences,
    long_waits: LongWaits,
    last_words: LastWords,
    answer_time: AnswerTime,
    timers: Timers,
    outbox: Outbox,
    /// The reason that there is no connection; `None` while there is one, and before the first has failed.
    trouble: Option<Disconnected>,
    connected: bool,
    abilities: Abilities,
    /// The attempts that may get a push: they wait on the server, or are being released after that.
    by_token: HashMap<Token, Id>,
    /// The reason for the end of the last connection.
    broke: Arc<str>,
    settings: TableSettings,
    /// The last id of a release without a caller. Counts down: the ids of callers count up.
    own_ids: Id,
    admin_calls: HashMap<Id, AdminCall>,
    /// Granted locks that their replicas must confirm.
    unconfirmed: Vec<Unconfirmed>,
    /// Shut down: new attempts fail.
    closed: bool,
}

impl LockTable {
    pub(crate) fn new(settings: TableSettings) -> Self {
        Self {
            attempts: HashMap::new(),
            queues: Queues::default(),
            contended: Contended::default(),
            hold_times: HoldTimes::default(),
            late_fences: LateFences::default(),
            long_waits: LongWaits::default(),
            last_words: LastWords::default(),
            answer_time: AnswerTime::new(settings.io_timeout),
            timers: Timers::default(),
            outbox: Outbox::default(),
            trouble: None,
            connected: false,
            abilities: Abilities { hands_over: false, tracks_changes: false, votes: false },
            by_token: HashMap::new(),
            broke: "not connected to Redis yet".into(),
            settings,
            own_ids: Id::MAX,
            admin_calls: HashMap::new(),
            unconfirmed: Vec::new(),
            closed: false,
        }
    }

    /// All unsent requests, in their order.
    #[cfg(test)]
    fn take_outbox(&mut self) -> Vec<(Id, Request)> {
        self.outbox.take_all().collect()
    }

    pub(crate) fn next_timer(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// True when there is a batch to send; `room`: for requests that are not urgent.
    pub(crate) fn has_requests(&self, room: usize) -> bool {
        self.outbox.has_any(room)
    }

    /// The next batch.
    pub(crate) fn take_requests(&mut self, room: usize) -> Vec<(Id, Request)> {
        self.outbox.take(room, |_| true)
    }

    /// Granted locks that their replicas must confirm.
    pub(crate) fn take_unconfirmed(&mut self) -> impl Iterator<Item = Unconfirmed> {
        self.unconfirmed.drain(..)
    }

    /// The number of attempts.
    fn attempts_left(&self) -> usize {
        self.attempts.len()
    }

    /// True without an attempt that waits, holds or releases.
    pub(crate) fn is_idle(&self) -> bool {
        self.attempts.is_empty()
    }

    /// True without a request of an operator.
    pub(crate) fn has_no_admin_calls(&self) -> bool {
        self.admin_calls.is_empty()
    }

    /// True with an attempt that waits for the server.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.by_token.is_empty()
    }

    fn waiting(&self, id: Id) -> Option<&Waiting> {
        match self.attempts.get(&id) {
            Some(Attempt::Waiting(waiting)) => Some(waiting),
            _ => None,
        }
    }

    /// Runs the timers that are due.
    pub(crate) fn tick(&mut self, now: Moment) {
        while let Some(id) = self.timers.pop(now) {
            if self.admin_calls.contains_key(&id) {
                self.fail_admin_call(id, &Disconnected::passing("the server gave no answer in time"));
                continue;
            }
            self.meets_timer(now, id);
            match self.attempts.get_mut(&id) {
                Some(Attempt::Waiting(waiting)) => {
                    if waiting.is_over(now) {
                        self.gives_up(now, id);
                    } else if waiting.is_long(now) {
                        self.report_wait(now, id);
                    } else {
                        self.ask(now, id);
                    }
                }
                // Its body may have run until now, when the key has expired.
                Some(Attempt::Held(held)) if held.is_closed() => {
                    self.lost(now, id, LostReason::ManagerClosed, false);
                }
                Some(Attempt::Held(held)) => {
                    if held.lease.remaining(now).is_none() {
                        self.lost(now, id, LostReason::Expired, true);
                    } else if held.answers_late_extensions(now, self.trouble.as_ref()) {
                        self.schedule(id);
                    } else if held.is_reservation_late(now) {
                        self.release_unreserved(now, id);
                    } else if held.takes_first_look(now) {
                        self.watch(id);
                        self.schedule(id);
                    } else {
                        self.renew(now, id);
                    }
                }
                Some(Attempt::Releasing(releasing)) => {
                    let step = releasing.tick(now, self.trouble.as_ref());
                    self.go_on_releasing(now, id, step);
                }
                None => {}
            }
        }
    }

    fn remove(&mut self, id: Id) {
        if let Some(Attempt::Releasing(releasing)) = self.attempts.remove(&id) {
            self.by_token.remove(releasing.token());
        }
        self.timers.set(id, None);
    }

    fn schedule(&mut self, id: Id) {
        let due = self.attempts.get(&id).and_then(Attempt::due);
        self.timers.set(id, due);
    }

    /// In the order of their commands.
    fn ids(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.attempts.keys().copied().collect();
        ids.sort_unstable();
        ids
    }
}
