//! What operators see of a call: metrics, spans and the log, each with its feature.
//!
//! Everything here is empty without those features, so callers need not know of them. Metrics name
//! no keys, and nothing names a token.

mod events;
mod log;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "tracing")]
mod spans;

use std::fmt::Display;
use std::sync::Arc;
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
pub(crate) use spans::{BodySpan, Entered};

/// A manager starts.
pub(crate) fn starts() {
    metrics::describe();
}

/// The outcome of a call that has the lock. `is_run`: for a tick, or for a body that runs once.
pub(crate) fn outcome_of_lock(is_run: bool) -> &'static str {
    if is_run { "ran" } else { "acquired" }
}

/// The outcome of a call that has failed: the kind of its error, but for a tick that another one
/// has run, which is no failure of the fleet.
pub(crate) fn outcome_of_error(error: &LockError) -> &'static str {
    match error.kind() {
        LockErrorKind::TickTaken => "taken",
        kind => kind.as_str(),
    }
}

/// What the engine tells of the wait of one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    metrics: metrics::Call,
    span: spans::Call,
}

/// The way of a lock from one holder to the next.
#[derive(Clone, Copy)]
pub(crate) enum HandOver {
    /// A release on the server granted it to the first waiter there.
    Server,
    /// Within this process, without the server.
    Process,
}

impl Call {
    /// It has a place in the queue, behind so many.
    pub(crate) fn queued(&self, in_front: u32) {
        self.span.queued(in_front);
    }

    /// It has waited for longer than the limit, with so many waiters of this process for the same
    /// lock.
    pub(crate) fn waits_long(&self, key: &str, waited: Duration, waiters_here: usize, found: &Found<'_>) {
        self.span.waits_long(key, waited, waiters_here, found);
    }

    /// A wait that was reported has ended.
    pub(crate) fn long_wait_ended(&self, key: &str, waited: Duration, outcome: &'static str) {
        self.span.long_wait_ended(key, waited, outcome);
    }

    /// The holder before this one has passed the lock on.
    pub(crate) fn handed_over(&self, by: HandOver) {
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
    metrics: metrics::Lead,
    /// Of the hold.
    span: BodySpan,
    is_over: bool,
}

impl Lead {
    pub(crate) fn begins(label: &Arc<str>, key: &str, term: u64, events: &Events, span: BodySpan) -> Self {
        let metrics = metrics::Lead::begins(label, term);
        Self { key: key.into(), term, events: events.clone(), metrics, span, is_over: false }
    }

    /// `error`: that of the body.
    pub(crate) fn ends(&mut self, end: TermEnd, error: Option<&dyn Display>) {
        self.is_over = true;
        self.metrics.ends(end.as_str());
        self.span.ends_term(end.as_str(), error);
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
    metrics: metrics::Wait,
    span: spans::Wait,
}

impl Wait {
    /// The wait of the code that runs now.
    pub(crate) fn called() -> Self {
        Self { metrics: metrics::Wait::called(), span: spans::Wait::called() }
    }

    pub(crate) fn begins(&mut self, keys: &[String], origin: &Origin, limit: Limit) -> Call {
        Call { metrics: self.metrics.begins(origin, limit), span: self.span.begins(keys, origin, limit) }
    }

    /// Enters the span, for the time of one poll.
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.span.enter()
    }

    pub(crate) fn fails(&mut self, error: &LockError) {
        self.metrics.ends(outcome_of_error(error));
        self.span.fails(error);
    }

    /// `is_run`: for a tick, or for a body that runs once.
    pub(crate) fn acquires(&mut self, fence: u64, limit: Limit, is_run: bool, events: &Events) -> Hold {
        let loss = events::Loss::new(events);
        let hold = Hold { metrics: self.metrics.hold(), span: self.span.hold(fence, limit), loss };
        self.metrics.ends(outcome_of_lock(is_run));
        self.span.ends(outcome_of_lock(is_run));
        hold
    }

    /// The caller holds all the locks already: no hold begins.
    pub(crate) fn joins(&mut self) {
        self.metrics.joins();
        self.span.ends("joined");
    }

    /// A body that runs once is done: its caller gets the result, and no hold begins.
    pub(crate) fn replays(&mut self) {
        self.metrics.ends("replayed");
        self.span.ends("replayed");
    }
}

/// The hold of one call, for one key or several: until it is released or a lease is lost. It ends
/// once, whichever thread ends it; clones are the same hold. The default is that of no call, or of
/// a nested one, which is part of the outer hold.
#[derive(Clone, Default)]
pub(crate) struct Hold {
    metrics: metrics::Hold,
    span: spans::Hold,
    loss: events::Loss,
}

impl Hold {
    /// To be entered for each poll of the body.
    pub(crate) fn body_span(&self) -> BodySpan {
        self.span.body_span()
    }

    /// The guard releases the lock.
    pub(crate) fn ends(&self) {
        let reason = LostReason::Released;
        self.metrics.ends(false, reason.as_str());
        self.span.ends(reason);
    }

    /// The release finds that the key was deleted or overwritten before.
    pub(crate) fn on_lost(&self, key: &str) {
        let reason = LostReason::KeyChanged;
        self.metrics.ends(true, reason.as_str());
        self.span.on_lost(key, reason);
        self.loss.tell(key, reason);
    }
}

/// The hold that a lease belongs to, once its caller has it.
#[derive(Default)]
pub(crate) struct HoldOfLease {
    metrics: metrics::HoldOfLease,
    span: spans::HoldOfLease,
    loss: events::LossOfLease,
}

impl HoldOfLease {
    /// `over`: why the lease has ended, if it has.
    pub(crate) fn set(&self, key: &str, hold: &Hold, over: impl FnOnce() -> Option<LostReason>) {
        self.metrics.set(&hold.metrics);
        self.span.set(&hold.span);
        self.loss.set(&hold.loss);
        // It may have ended before this was set.
        if let Some(reason) = over() {
            self.ends(key, reason);
        }
    }

    /// The hold of the caller; an empty one until the caller has the lock.
    pub(crate) fn get(&self) -> Hold {
        Hold { metrics: self.metrics.get(), span: self.span.get(), loss: self.loss.get() }
    }

    pub(crate) fn ends(&self, key: &str, reason: LostReason) {
        let is_lost = reason.is_loss();
        self.metrics.ends(is_lost, reason.as_str());
        self.span.ends(reason);
        if is_lost {
            self.loss.tell(key, reason);
        }
    }
}

/// The metrics without the feature `metrics`: none.
#[cfg(not(feature = "metrics"))]
#[expect(clippy::unused_self, reason = "with the feature they are used")]
mod metrics {
    use std::sync::Arc;

    use crate::base::limit::Limit;
    use crate::base::owner::Origin;

    pub(super) fn describe() {}

    pub(super) fn reconnects() {}

    #[derive(Clone, Debug, Default)]
    pub(super) struct Call;

    impl Call {
        pub(super) fn handed_over(&self, _by: &'static str) {}
    }

    #[derive(Debug)]
    pub(super) struct Wait;

    impl Wait {
        pub(super) fn called() -> Self {
            Self
        }

        pub(super) fn begins(&mut self, _origin: &Origin, _limit: Limit) -> Call {
            Call
        }

        pub(super) fn hold(&self) -> Hold {
            Hold
        }

        pub(super) fn joins(&mut self) {}

        pub(super) fn ends(&mut self, _outcome: &'static str) {}
    }

    #[derive(Clone, Default)]
    pub(super) struct Hold;

    impl Hold {
        pub(super) fn ends(&self, _is_lost: bool, _reason: &'static str) {}
    }

    #[derive(Default)]
    pub(super) struct HoldOfLease;

    impl HoldOfLease {
        pub(super) fn get(&self) -> Hold {
            Hold
        }

        pub(super) fn set(&self, _hold: &Hold) {}

        pub(super) fn ends(&self, _is_lost: bool, _reason: &'static str) {}
    }

    pub(super) struct Lead;

    impl Lead {
        pub(super) fn begins(_label: &Arc<str>, _term: u64) -> Self {
            Self
        }

        pub(super) fn ends(&self, _end: &'static str) {}
    }
}

/// The spans without the feature `tracing`: none.
#[cfg(not(feature = "tracing"))]
#[expect(clippy::unused_self, reason = "with the feature they are used")]
mod spans {
    use std::fmt::Display;
    use std::marker::PhantomData;
    use std::time::Duration;

    use super::log::Found;
    use crate::base::error::LockError;
    use crate::base::limit::Limit;
    use crate::base::outcome::LostReason;
    use crate::base::owner::Origin;

    pub(crate) struct Entered<'a>(PhantomData<&'a ()>);

    #[derive(Clone, Debug, Default)]
    pub(super) struct Call;

    impl Call {
        pub(super) fn queued(&self, _in_front: u32) {}

        pub(super) fn waits_long(
            &self,
            _key: &str,
            _waited: Duration,
            _waiters_here: usize,
            _found: &Found<'_>,
        ) {
        }

        pub(super) fn long_wait_ended(&self, _key: &str, _waited: Duration, _outcome: &'static str) {}
    }

    #[derive(Debug)]
    pub(super) struct Wait;

    impl Wait {
        pub(super) fn called() -> Self {
            Self
        }

        pub(super) fn begins(&mut self, _keys: &[String], _origin: &Origin, _limit: Limit) -> Call {
            Call
        }

        pub(super) fn enter(&self) -> Entered<'_> {
            Entered(PhantomData)
        }

        pub(super) fn hold(&self, _fence: u64, _limit: Limit) -> Hold {
            Hold
        }

        pub(super) fn ends(&mut self, _outcome: &'static str) {}

        pub(super) fn fails(&mut self, _error: &LockError) {}
    }

    #[derive(Clone, Default)]
    pub(super) struct Hold;

    impl Hold {
        pub(super) fn on_lost(&self, _key: &str, _reason: LostReason) {}

        pub(super) fn body_span(&self) -> BodySpan {
            BodySpan
        }

        pub(super) fn ends(&self, _reason: LostReason) {}
    }

    pub(crate) struct BodySpan;

    impl BodySpan {
        pub(crate) fn enter(&self) -> Entered<'_> {
            Entered(PhantomData)
        }

        pub(super) fn ends_term(&self, _end: &'static str, _error: Option<&dyn Display>) {}
    }

    #[derive(Default)]
    pub(super) struct HoldOfLease;

    impl HoldOfLease {
        pub(super) fn get(&self) -> Hold {
            Hold
        }

        pub(super) fn set(&self, _hold: &Hold) {}

        pub(super) fn ends(&self, _reason: LostReason) {}
    }
}
