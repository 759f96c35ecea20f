//! What operators see of a call: metrics, spans and the log, each with its feature.
//!
//! Callers need not know of the features: what observes through one is a field behind it, and
//! without it the types here have nothing of that. Metrics name no keys, and nothing names a token.
#![cfg_attr(
    not(all(feature = "metrics", feature = "tracing")),
    allow(unused_variables, clippy::unused_self, reason = "used with both features")
)]

mod events;
mod log;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tracing")]
mod spans;

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::base::error::{LockError, LockErrorKind};
use crate::base::limit::Limit;
use crate::base::outcome::LostReason;
use crate::base::owner::Origin;
pub(crate) use events::Events;
pub use events::{LockEvent, TermEnd};
pub(crate) use log::{
    Found, broke, cannot_hand_over, connected, kept_too_short, leader_blocked, limit_of_waits, limits_differ,
    lost, may_evict, refused, unreachable,
};
#[cfg(any(feature = "axum", feature = "actix-web", feature = "tonic"))]
pub(crate) use log::{request_failed, request_not_served};

/// A manager starts.
pub(crate) fn starts() {
    #[cfg(feature = "metrics")]
    metrics::describe();
}

/// The outcome of a call that has the lock. `is_run`: for a tick, or for a body that runs once.
pub(crate) fn outcome_of_lock(is_run: bool) -> &'static str {
    if is_run { "ran" } else { "acquired" }
}

/// The outcome of a call that has failed: the kind of its error, except for a tick that another one
/// has run, which is no failure of the fleet.
pub(crate) fn outcome_of_error(error: &LockError) -> &'static str {
    match error.kind() {
        LockErrorKind::TickTaken => "taken",
        kind => kind.as_str(),
    }
}

/// Records what the engine sees of the wait of one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitReporter {
    #[cfg(feature = "metrics")]
    metrics: metrics::HandOverCounter,
    #[cfg(feature = "tracing")]
    span: spans::SharedWaitSpan,
}

/// The way of a lock from one holder to the next.
#[derive(Clone, Copy)]
pub(crate) enum HandOver {
    /// A release on the server granted it to the first waiter there.
    Server,
    /// Within this process, without the server.
    Process,
}

impl WaitReporter {
    /// It has a place in the queue, behind so many.
    pub(crate) fn queued(&self, in_front: u32) {
        #[cfg(feature = "tracing")]
        self.span.queued(in_front);
    }

    /// It has waited for longer than the limit, with so many waiters of this process for the same
    /// lock.
    pub(crate) fn waits_long(&self, key: &str, waited: Duration, waiters_here: usize, found: &Found<'_>) {
        #[cfg(feature = "tracing")]
        self.span.waits_long(key, waited, waiters_here, found);
    }

    /// A wait that was reported has ended.
    pub(crate) fn long_wait_ended(&self, key: &str, waited: Duration, outcome: &'static str) {
        #[cfg(feature = "tracing")]
        self.span.long_wait_ended(key, waited, outcome);
    }

    /// The holder before this one has passed the lock on.
    pub(crate) fn handed_over(&self, by: HandOver) {
        #[cfg(feature = "metrics")]
        self.metrics.handed_over(match by {
            HandOver::Server => "server",
            HandOver::Process => "process",
        });
    }
}

/// A term of a leader. Dropped without an end, its future was dropped, or its body panicked.
pub(crate) struct Lead {
    key: Arc<str>,
    term: u64,
    events: Events,
    #[cfg(feature = "metrics")]
    metrics: metrics::Lead,
    /// The span of the hold.
    span: BodySpan,
    is_over: bool,
}

impl Lead {
    pub(crate) fn begins(label: &Arc<str>, key: &str, term: u64, events: &Events, span: BodySpan) -> Self {
        Self {
            key: key.into(),
            term,
            events: events.clone(),
            #[cfg(feature = "metrics")]
            metrics: metrics::Lead::begins(label, term),
            span,
            is_over: false,
        }
    }

    /// `error`: that of the body.
    pub(crate) fn ends(&mut self, end: TermEnd, error: Option<&dyn Display>) {
        self.is_over = true;
        #[cfg(feature = "metrics")]
        self.metrics.ends(end.as_str());
        self.span.term_ends(end, error);
        if let Some(error) = error {
            log::term_failed(&self.key, self.term, error);
        }
        self.events.term_ended(&self.key, self.term, end, error);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.is_over {
            let panics = std::thread::panicking();
            if panics {
                log::leader_panicked(&self.key, self.term);
            }
            self.ends(if panics { TermEnd::Panicked } else { TermEnd::Dropped }, None);
        }
    }
}

/// The wait of one call, for one key or several: from its first poll to its outcome. Dropped before
/// that, it was cancelled.
#[derive(Debug)]
pub(crate) struct Wait {
    #[cfg(feature = "metrics")]
    metrics: metrics::Wait,
    #[cfg(feature = "tracing")]
    span: spans::Wait,
}

impl Wait {
    /// The wait of the code that runs now.
    pub(crate) fn called() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            metrics: metrics::Wait::called(),
            #[cfg(feature = "tracing")]
            span: spans::Wait::called(),
        }
    }

    #[cfg_attr(
        not(feature = "tracing"),
        expect(clippy::needless_pass_by_value, reason = "read with the feature `tracing`")
    )]
    pub(crate) fn begins<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a str>,
        origin: &Origin,
        limit: Limit,
    ) -> WaitReporter {
        WaitReporter {
            #[cfg(feature = "metrics")]
            metrics: self.metrics.begins(origin, limit),
            #[cfg(feature = "tracing")]
            span: self.span.begins(keys, origin, limit),
        }
    }

    /// Enters the span, for the time of one poll.
    pub(crate) fn enter(&self) -> Entered<'_> {
        Entered {
            #[cfg(feature = "tracing")]
            _span: self.span.enter(),
            _of: PhantomData,
        }
    }

    pub(crate) fn fails(&mut self, error: &LockError) {
        #[cfg(feature = "tracing")]
        self.span.fails(error);
        self.ends(outcome_of_error(error));
    }

    /// `is_run`: for a tick, or for a body that runs once.
    pub(crate) fn acquires(
        &mut self,
        fence: u64,
        limit: Limit,
        is_run: bool,
        events: &Events,
    ) -> ObservedHold {
        let is_observed = cfg!(any(feature = "metrics", feature = "tracing")) || events.is_some();
        let observed = is_observed.then(|| Observed {
            #[cfg(feature = "metrics")]
            metrics: self.metrics.hold(),
            #[cfg(feature = "tracing")]
            span: self.span.hold(fence, limit),
            loss: events::Loss::new(events),
        });
        self.ends(outcome_of_lock(is_run));
        ObservedHold(observed.map(Arc::new))
    }

    /// The caller holds all the locks already: no hold begins.
    pub(crate) fn joins(&mut self) {
        #[cfg(feature = "metrics")]
        self.metrics.joins();
        #[cfg(feature = "tracing")]
        self.span.ends("joined");
    }

    /// A body that runs once is done: its caller gets the result, and no hold begins.
    pub(crate) fn replays(&mut self) {
        self.ends("replayed");
    }

    fn ends(&mut self, outcome: &'static str) {
        #[cfg(feature = "metrics")]
        self.metrics.ends(outcome);
        #[cfg(feature = "tracing")]
        self.span.ends(outcome);
    }
}

/// The hold of one call, for one key or several: until it is released or a lease is lost. It ends
/// once, whichever thread ends it; clones are the same hold. The default, `None`, is that of no
/// call, of a nested one, which is part of the outer hold, and of one that nothing observes.
#[derive(Clone, Default)]
pub(crate) struct ObservedHold(Option<Arc<Observed>>);

struct Observed {
    #[cfg(feature = "metrics")]
    metrics: Option<metrics::HoldMetrics>,
    #[cfg(feature = "tracing")]
    span: spans::HoldSpan,
    loss: events::Loss,
}

impl ObservedHold {
    /// To be entered for each poll of the body.
    pub(crate) fn body_span(&self) -> BodySpan {
        BodySpan {
            #[cfg(feature = "tracing")]
            span: self.0.as_ref().map_or_else(tracing::Span::none, |observed| observed.span.body_span()),
        }
    }

    /// The guard releases the lock.
    pub(crate) fn ends(&self) {
        if let Some(observed) = &self.0 {
            observed.ends(LostReason::Released);
        }
    }

    /// The release finds that the key was deleted or overwritten before.
    pub(crate) fn on_lost(&self, key: &str) {
        let reason = LostReason::KeyChanged;
        if let Some(observed) = &self.0 {
            observed.ends(reason);
            lost(key, reason);
            observed.loss.tell(key, reason);
        }
    }
}

impl Observed {
    fn ends(&self, reason: LostReason) {
        #[cfg(feature = "metrics")]
        self.metrics.iter().for_each(|hold| hold.ends(reason));
        #[cfg(feature = "tracing")]
        self.span.ends(reason);
    }
}

/// The span of a hold, which lasts as long as its body.
pub(crate) struct BodySpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl BodySpan {
    pub(crate) fn enter(&self) -> Entered<'_> {
        Entered {
            #[cfg(feature = "tracing")]
            _span: self.span.enter(),
            _of: PhantomData,
        }
    }

    fn term_ends(&self, end: TermEnd, error: Option<&dyn Display>) {
        #[cfg(feature = "tracing")]
        spans::term_ends(&self.span, end.as_str(), error);
    }
}

/// In a span until it is dropped, on this thread.
pub(crate) struct Entered<'a> {
    #[cfg(feature = "tracing")]
    _span: tracing::span::Entered<'a>,
    _of: PhantomData<&'a ()>,
}

/// The hold that a lease belongs to, once its caller has it.
#[derive(Default)]
pub(crate) struct HoldOfLease(OnceLock<Arc<Observed>>);

impl HoldOfLease {
    /// `over`: why the lease has ended, if it has.
    pub(crate) fn set(&self, key: &str, hold: &ObservedHold, over: impl FnOnce() -> Option<LostReason>) {
        if let Some(observed) = &hold.0 {
            // A lease has one guard that owns it; nested ones have no hold.
            let _ = self.0.set(Arc::clone(observed));
            // It may have ended before this was set.
            if let Some(reason) = over() {
                self.ends(key, reason);
            }
        }
    }

    /// The hold of the caller; an empty one until the caller has the lock.
    pub(crate) fn get(&self) -> ObservedHold {
        ObservedHold(self.0.get().cloned())
    }

    /// The lock is shared from now on.
    pub(crate) fn downgrades(&self) {
        #[cfg(feature = "metrics")]
        if let Some(hold) = self.0.get().and_then(|observed| observed.metrics.as_ref()) {
            hold.downgrades();
        }
    }

    pub(crate) fn ends(&self, key: &str, reason: LostReason) {
        if let Some(observed) = self.0.get() {
            observed.ends(reason);
            if reason.is_loss() {
                observed.loss.tell(key, reason);
            }
        }
    }
}
