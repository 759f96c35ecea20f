//! An attempt that does not have the lock yet.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::protocol::{Action, Request};
use super::releasing::Releasing;
use crate::clock::Moment;
use crate::error::{Holder, LockError};
use crate::lease::Lease;
use crate::token::Token;

/// What the caller wants, and where the outcome goes. Registered before anything is sent.
pub(crate) struct Ask {
    /// The user's key, for errors.
    pub(crate) key: Arc<str>,
    /// The key on the server, with its prefix.
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    /// A busy lock is an error at once.
    pub(crate) one_try: bool,
    pub(crate) started: Moment,
    /// `None`: waits for ever.
    pub(crate) gives_up_at: Option<Moment>,
    pub(crate) caller: Option<oneshot::Sender<Result<Arc<Lease>, LockError>>>,
}

impl Ask {
    /// Delivers the lock. False when the caller has gone.
    pub(super) fn grant(&mut self, lease: Arc<Lease>) -> bool {
        self.caller.take().is_some_and(|caller| caller.send(Ok(lease)).is_ok())
    }

    pub(super) fn fail(&mut self, error: LockError) {
        if let Some(caller) = self.caller.take() {
            // A caller that has gone does not mind.
            let _ = caller.send(Err(error));
        }
    }
}

/// What a waiting attempt waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Another attempt of this process, in front of it.
    Turn,
    /// The answer to what was sent then.
    Asking { sent: Moment },
    /// The time to ask again.
    Pause { until: Moment },
    /// A connection.
    Connection,
}

/// What the server said last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    Nothing,
    Busy(Holder),
    Refused(Arc<str>),
}

pub(super) struct Waiting {
    pub(super) ask: Ask,
    pub(super) token: Token,
    pub(super) step: Step,
    pub(super) seen: Seen,
    /// The server may have granted what we asked: a request has been sent whose answer was not "busy".
    pub(super) unanswered: bool,
    /// The lock was released here after the pending ask was sent.
    pub(super) ask_again: bool,
}

impl Waiting {
    pub(super) fn new(ask: Ask, token: Token) -> Self {
        Self { ask, token, step: Step::Turn, seen: Seen::Nothing, unanswered: false, ask_again: false }
    }

    pub(super) fn due(&self) -> Option<Moment> {
        let again = match self.step {
            Step::Pause { until } => Some(until),
            Step::Turn | Step::Asking { .. } | Step::Connection => None,
        };
        again.into_iter().chain(self.ask.gives_up_at).min()
    }

    pub(super) fn gives_up(&self, now: Moment) -> bool {
        self.ask.gives_up_at.is_some_and(|at| at <= now)
    }

    pub(super) fn request(&self, action: Action) -> Request {
        Request { action, name: Arc::clone(&self.ask.name), token: self.token.clone() }
    }

    pub(super) fn asking(&mut self, now: Moment) {
        self.step = Step::Asking { sent: now };
        self.unanswered = true;
        self.ask_again = false;
    }

    pub(super) fn unanswered_for(&self, now: Moment, limit: Duration) -> bool {
        matches!(self.step, Step::Asking { sent } if now.since(sent) > limit)
    }

    /// Somebody has it: asks again when it expires, or sooner, at a jittered interval.
    pub(super) fn busy(&mut self, now: Moment, holder: Holder) {
        let interval = jittered(ASK_AGAIN_AFTER);
        let pause = match holder.free_in {
            _ if self.ask_again => Duration::ZERO,
            Some(free_in) => interval.min(free_in + Duration::from_millis(1)),
            None => interval,
        };
        self.seen = Seen::Busy(holder);
        self.step = Step::Pause { until: now.after(pause) };
    }

    pub(super) fn refused(&mut self, now: Moment, reason: Arc<str>) {
        self.seen = Seen::Refused(reason);
        self.pause(now);
    }

    pub(super) fn pause(&mut self, now: Moment) {
        self.step = Step::Pause { until: now.after(jittered(ASK_AGAIN_AFTER)) };
    }

    /// Takes over what the waiter in front, which gives up, has learnt. False when it has to ask by itself.
    pub(super) fn inherit(&mut self, front: &Self) -> bool {
        if self.step == Step::Turn {
            self.seen = front.seen.clone();
            if let Step::Pause { .. } | Step::Connection = front.step {
                self.step = front.step;
            }
        }
        self.step != Step::Turn
    }

    pub(super) fn disconnected(&mut self) {
        if self.step != Step::Turn {
            self.step = Step::Connection;
        }
    }

    /// Gives back what was asked for and may have been granted.
    pub(super) fn release(&self, now: Moment) -> Releasing {
        Releasing::new(now, Arc::clone(&self.ask.key), self.request(Action::Release), self.ask.ttl)
    }
}

/// How often the first waiter of a process looks whether another process has released.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Between half and one and a half times `interval`, so that many processes do not ask in step.
pub(super) fn jittered(interval: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    interval / 2 + interval.mul_f64(f64::from(random) / f64::from(u32::MAX))
}
