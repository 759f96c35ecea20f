//! An attempt that releases a lock that it has or may have, or leaves the queue.
//!
//! The release is sent again after each connection that broke, and after each refusal with a pause
//! that doubles, until the server answers or the key has expired: an operator may correct the cause
//! meanwhile. Its caller waits for the outcome until a time limit, but gets a refusal that may
//! last at once. Before the end of a `min_hold` the key is not deleted but left to expire then. A
//! first release that does not find the lock tells its caller of the loss; a repeated one may be
//! what has deleted it.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::outcome::ReleaseOutcome;
use crate::base::telemetry;
use crate::base::token::Token;
use crate::engine::command::{Kept, Response, Unconfirmed};
use crate::engine::protocol::{Action, Disconnected, Id, QUEUE_TTL, Refusal, Request};
use crate::engine::timers::Backoff;

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the release")]
pub(super) struct Releasing {
    key: Arc<str>,
    request: Request,
    /// The server keeps the key for this time at most, once it has executed what was sent before
    /// the release.
    lasts: Duration,
    /// The key has expired on the server by then.
    until: Moment,
    /// Without a `min_hold` the key has expired by then.
    ttl_ends: Moment,
    /// The end of `min_hold`: before it, the release lets the key expire then.
    keep_until: Option<Moment>,
    again_at: Option<Moment>,
    response: Option<(Moment, Response)>,
    /// The caller gets a ticket for the lock. One that is not told has none: then the lock is
    /// released.
    for_a_ticket: bool,
    /// A release without a reply was sent: the server may have executed it.
    repeated: bool,
    /// The server has granted the lock to this attempt, whose caller had left or could not be told
    /// in time.
    was_granted: bool,
    may_be_queued: bool,
    /// The number of requests that may have taken the lock or a place, if no more is known of
    /// these.
    unanswered: Option<u32>,
    /// The refusals so far.
    refusals: u32,
    /// The reason of the last one.
    refused: Option<Arc<str>>,
    /// The hold that ended with this release, if its lease had not ended before.
    hold: telemetry::ObservedHold,
}

/// The pause before a refused release is repeated.
const SEND_AGAIN: Backoff = Backoff { shortest: Duration::from_millis(20), longest: Duration::from_secs(1) };

/// The outcome is known without a request.
pub(super) fn answer(response: Option<Response>, outcome: ReleaseOutcome) {
    if let Some(response) = response {
        response.send(Ok(outcome), None);
    }
}

/// For a caller whose ticket was over before the server could be told of it.
const TOO_LATE: &str = "Redis answered when the time of the ticket was over: the lock is released";

/// The next step of the table for a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReleaseStep {
    /// Removes it.
    Done,
    /// Sends it now.
    Send,
    /// Waits for its timer.
    Wait,
}

impl Releasing {
    pub(super) fn new(now: Moment, key: Arc<str>, request: Request, ttl: Duration) -> Self {
        Self {
            key,
            request,
            lasts: ttl,
            until: now.after(ttl),
            ttl_ends: now.after(ttl),
            keep_until: None,
            again_at: None,
            response: None,
            for_a_ticket: false,
            repeated: false,
            was_granted: false,
            may_be_queued: false,
            unanswered: None,
            refusals: 0,
            refused: None,
            hold: telemetry::ObservedHold::default(),
        }
    }

    /// A caller waits for the outcome until `by`. The release is repeated after that, too.
    #[inline]
    pub(super) fn answering(mut self, by: Moment, response: Response) -> Self {
        self.response = Some((by, response));
        self
    }

    /// Its holder has relied on the lock until now.
    pub(super) fn ending(mut self, hold: telemetry::ObservedHold) -> Self {
        self.hold = hold;
        self
    }

    /// The key stays until `keep_until`.
    pub(super) fn keeping(mut self, keep_until: Moment) -> Self {
        self.until = self.until.max(keep_until);
        self.keep_until = Some(keep_until);
        self
    }

    /// Until then it is for whoever redeems the ticket that the caller gets.
    pub(super) fn for_a_ticket(mut self) -> Self {
        self.for_a_ticket = true;
        self
    }

    /// It may have a place in the queue, which lasts as long as the queue.
    pub(super) fn leaving(mut self, now: Moment) -> Self {
        self.may_be_queued = true;
        self.lasts = self.lasts.max(QUEUE_TTL);
        self.until = self.until.max(now.after(self.lasts));
        self
    }

    /// It has no place that it knows of, and nothing but so many requests without an answer.
    pub(super) fn after_unanswered(mut self, requests: u32) -> Self {
        self.unanswered = Some(requests);
        self
    }

    /// The server has done nothing of one of these requests. True when that was the last one: there
    /// is nothing to release.
    pub(super) fn undo_request(&mut self) -> bool {
        self.unanswered = self.unanswered.map(|requests| requests.saturating_sub(1));
        self.unanswered == Some(0) && !self.was_granted
    }

    /// The server has granted the lock to this attempt.
    pub(super) fn set_granted(&mut self) {
        self.was_granted = true;
    }

    /// True when that grant was over, by this reply to the release.
    pub(super) fn ran_out(&self, was_held: bool) -> bool {
        self.was_granted && !was_held && !self.repeated
    }

    pub(super) fn token(&self) -> &Token {
        &self.request.token
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.request.name
    }

    /// True when the release pauses after a refusal. It is sent now instead.
    pub(super) fn end_pause(&mut self) -> bool {
        self.again_at.take().is_some()
    }

    pub(super) fn request(&self, now: Moment) -> Request {
        let keep = self.keep_until.map(|until| until.since(now)).unwrap_or_default();
        if keep.is_zero() {
            return self.request.clone();
        }
        // Rounded up: an expiry of zero would delete the key at once.
        let ttl = keep + Duration::from_millis(1);
        Request { action: Action::ExpireLater, ttl, to_ticket: self.for_a_ticket, ..self.request.clone() }
    }

    pub(super) fn due(&self) -> Moment {
        let answer_by = self.response.as_ref().map(|(by, _)| *by);
        self.again_at.into_iter().chain(answer_by).fold(self.until, Ord::min)
    }

    /// The server has executed it, with this action. `was_held`: until then the token held the
    /// lock.
    pub(super) fn on_reply(&mut self, now: Moment, action: Action, was_held: bool) -> ReleaseStep {
        let was_late = self.repeated || self.ttl_ends <= now;
        if was_late && !was_held && !self.for_a_ticket && self.keep_until.is_some_and(|until| until > now) {
            telemetry::kept_too_short(&self.key);
        }
        if self.for_a_ticket && was_held {
            let is_kept = action == Action::ExpireLater;
            let is_left = is_kept && self.keep_until.is_some();
            let too_late = || LockError::unavailable(&self.key, TOO_LATE);
            let outcome = if is_left { Ok(ReleaseOutcome::Released) } else { Err(too_late()) };
            let is_told = self.answer(outcome);
            if is_kept && !(is_left && is_told) {
                self.keep_until = None;
                return ReleaseStep::Send;
            }
            return ReleaseStep::Done;
        }
        // What lets a key expire does not leave the queue.
        let leaves = self.may_be_queued && !was_held && self.keep_until.take().is_some();
        // Nobody can have redeemed a ticket that was not given. And the server knows of a result that
        // it has stored.
        let may_be_gone = self.repeated && !self.for_a_ticket && !self.request.has_result();
        if was_held || may_be_gone {
            let is_kept = was_held && action == Action::ExpireLater;
            self.answer(Ok(if is_kept { ReleaseOutcome::Kept } else { ReleaseOutcome::Released }));
        } else {
            self.hold.on_lost(&self.key);
            self.answer(Ok(ReleaseOutcome::AlreadyLost));
        }
        if leaves { ReleaseStep::Send } else { ReleaseStep::Done }
    }

    /// The server has not executed it, or may have. Repeats it after a pause, until the key has
    /// expired: an operator may correct the
    /// cause meanwhile.
    pub(super) fn on_refusal(&mut self, now: Moment, refusal: Refusal) -> ReleaseStep {
        if refusal.is_asked_again() {
            self.request.use_script();
            return ReleaseStep::Send;
        }
        self.refused = Some(refusal.clone().words());
        match refusal {
            Refusal::Transient(_) if !refusal.lasts() => {}
            Refusal::OutcomeUnknown(_) => self.repeated = true,
            // The caller does not wait: this refusal may outlast its time limit.
            refusal => {
                let error = refusal.error(Some(Arc::clone(&self.key)));
                self.answer(Err(error));
            }
        }
        if self.refusals == 0 {
            // What was sent before may have been executed as late as this.
            self.until = self.until.max(now.after(self.lasts));
        }
        self.again_at = Some(now.after(SEND_AGAIN.pause(self.refusals)));
        self.refusals = self.refusals.saturating_add(1);
        ReleaseStep::Wait
    }

    pub(super) fn tick(&mut self, now: Moment, trouble: Option<&Disconnected>) -> ReleaseStep {
        if let Some((by, _)) = &self.response
            && (*by).min(self.until) <= now
        {
            let error = if let Some(trouble) = trouble {
                trouble.error(Some(Arc::clone(&self.key)))
            } else {
                let reason = self.refused.as_deref().unwrap_or("Redis gave no answer to the release in time");
                let reason = format!("{reason}; the release is tried again until the ttl is over");
                LockError::unavailable(&self.key, reason)
            };
            self.answer(Err(error));
        }
        if self.until <= now {
            if self.keep_until == Some(self.until) && !self.for_a_ticket {
                telemetry::kept_too_short(&self.key);
            }
            return ReleaseStep::Done;
        }
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            return ReleaseStep::Send;
        }
        ReleaseStep::Wait
    }

    /// The record that the server has stored with the release, if a caller waits for it.
    pub(super) fn take_kept(&mut self, id: Id) -> Option<Unconfirmed> {
        if !self.request.keeps_a_record() {
            return None;
        }
        let (_, response) = self.response.take()?;
        let kept = Some(Kept { key: Arc::clone(&self.key), response });
        Some(Unconfirmed { id, request: self.request.clone(), gives_up_at: None, kept })
    }

    pub(super) fn disconnect(&mut self) {
        self.response.take_if(|(_, response)| response.is_to_dropped());
        self.repeated = true;
        self.request.use_script();
        self.again_at = None;
    }

    /// False when no caller gets the outcome. A caller that gets an error gets no ticket.
    fn answer(&mut self, outcome: Result<ReleaseOutcome, LockError>) -> bool {
        if self.for_a_ticket && outcome.is_err() {
            self.keep_until = None;
        }
        let response = self.response.take();
        response.is_some_and(|(_, response)| response.send(outcome, Some(&self.request)))
    }
}
