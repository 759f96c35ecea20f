//! The state of a downgrade until the server has answered it. A downgrade makes an exclusive lock a shared
//! one.
//!
//! Between the request and its answer, the holder does not know whether its lock is exclusive or shared. If
//! the answer is lost, it does not know that until the server answers a later request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::engine::protocol::{Disconnected, Refusal};
use crate::engine::timers::Backoff;

/// The pause before a refused downgrade is repeated.
const SEND_AGAIN: Backoff = Backoff { shortest: Duration::from_millis(20), longest: Duration::from_secs(1) };

/// The error of a caller whose downgrade is not confirmed in time.
const UNCONFIRMED: &str =
    "the downgrade is not confirmed: the lock is held, exclusive or shared. Call `downgrade` again";

#[derive(Default)]
pub(super) struct Downgrade {
    /// The callers that wait for the answer, and until when.
    callers: Vec<(Moment, oneshot::Sender<Result<(), LockError>>)>,
    /// A request was sent over this connection, and is not answered.
    is_sent: bool,
    /// The server may have executed an earlier request, which it has not answered.
    is_in_doubt: bool,
    /// It was answered over an earlier connection. Another server may not know that.
    is_to_be_told: bool,
    /// The pause after a refusal ends then.
    again_at: Option<Moment>,
    /// The refusals so far.
    refusals: u32,
    /// The reason of the last one.
    refused: Option<Arc<str>>,
}

impl Downgrade {
    pub(super) fn add(&mut self, by: Moment, caller: oneshot::Sender<Result<(), LockError>>) {
        self.callers.push((by, caller));
    }

    /// The next request may reach another server, which may not have what an earlier one has answered.
    pub(super) fn elsewhere() -> Self {
        Self { is_in_doubt: true, is_to_be_told: true, ..Self::default() }
    }

    /// The server may have executed it.
    pub(super) fn may_be_done(&self) -> bool {
        self.is_sent || self.is_in_doubt
    }

    /// A request is under way.
    pub(super) fn is_sent(&self) -> bool {
        self.is_sent
    }

    /// True when a caller waits or a server is to be told, and no request is under way or pauses.
    pub(super) fn is_to_be_sent(&mut self, now: Moment) -> bool {
        self.callers.retain(|(_, caller)| !caller.is_closed());
        !self.is_sent && self.is_wanted() && self.again_at.is_none_or(|at| at <= now)
    }

    fn is_wanted(&self) -> bool {
        self.is_to_be_told || !self.callers.is_empty()
    }

    pub(super) fn set_sent(&mut self) {
        (self.is_sent, self.again_at) = (true, None);
    }

    /// The connection broke.
    pub(super) fn disconnect(&mut self) {
        self.is_in_doubt = self.may_be_done();
        (self.is_sent, self.again_at) = (false, None);
    }

    /// The server has refused it. One that passes is sent again, at once or after a pause; one that lasts
    /// ends the calls.
    pub(super) fn set_refused(&mut self, now: Moment, key: &Arc<str>, refusal: Refusal) {
        self.is_sent = false;
        // The script may have stopped behind a command that has changed something.
        self.is_in_doubt |= !refusal.has_done_nothing(true);
        match refusal {
            refusal if refusal.is_asked_again() => {}
            Refusal::Transient(_) | Refusal::OutcomeUnknown(_) => {
                self.refused = Some(refusal.words());
                self.again_at = Some(now.after(SEND_AGAIN.pause(self.refusals)));
                self.refusals = self.refusals.saturating_add(1);
            }
            refusal => {
                self.is_to_be_told = false;
                for (_, caller) in self.callers.drain(..) {
                    let _ = caller.send(Err(refusal.clone().error(Some(Arc::clone(key)))));
                }
            }
        }
    }

    /// When a caller is to be answered, or a pause is over.
    pub(super) fn due(&self) -> Option<Moment> {
        let answers = self.callers.iter().map(|(by, _)| *by);
        answers.chain(self.again_at.filter(|_| self.is_wanted())).min()
    }

    /// Answers the callers that have waited for too long.
    pub(super) fn answer_late(&mut self, now: Moment, key: &Arc<str>, trouble: Option<&Disconnected>) {
        let Self { callers, refused, .. } = self;
        for (_, caller) in callers.extract_if(.., |(by, _)| *by <= now) {
            let error = if let Some(trouble) = trouble {
                trouble.error(Some(Arc::clone(key)))
            } else {
                let reason = refused.as_deref().unwrap_or("Redis gave no answer in time");
                LockError::unavailable(key, format!("{reason}; {UNCONFIRMED}"))
            };
            let _ = caller.send(Err(error));
        }
    }

    /// Nobody waits for it, and the server has not executed it.
    pub(super) fn is_over(&self) -> bool {
        self.callers.is_empty() && !self.may_be_done()
    }

    /// The server has executed it.
    pub(super) fn confirm(self) {
        for (_, caller) in self.callers {
            let _ = caller.send(Ok(()));
        }
    }

    /// The lease is over: the callers get no answer.
    pub(super) fn drop_callers(&mut self) {
        self.callers.clear();
    }
}
