//! The spans, through the crate `tracing`: `lock_wait` and `lock_hold`, children of the caller's
//! span at the time of its call.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;
use tracing::span::Entered;

use super::log::{self, Found, milliseconds, number};
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::error::LockErrorKind;
use crate::base::limit::Limit;
use crate::base::outcome::LostReason;
use crate::base::owner::Origin;

/// Through `tracing-opentelemetry`, the span has failed.
fn mark_failed(span: &Span, why: &dyn fmt::Display) {
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", tracing::field::display(why));
}

/// The hold of `span` was a term. `error`: that of its body.
pub(super) fn term_ends(span: &Span, end: &'static str, error: Option<&dyn fmt::Display>) {
    span.record("term_end", end);
    if let Some(error) = error {
        mark_failed(span, error);
    }
}

/// The span of a wait. Shared, because each waiting attempt has it.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedWaitSpan(Option<Arc<Span>>);

impl SharedWaitSpan {
    pub(super) fn queued(&self, in_front: u32) {
        if let Some(span) = &self.0 {
            span.record("in_front", number(in_front));
        }
    }

    pub(super) fn waits_long(&self, key: &str, waited: Duration, waiters_here: usize, found: &Found<'_>) {
        log::waits_long(self.0.as_ref().and_then(|span| span.id()), key, waited, waiters_here, found);
    }

    pub(super) fn long_wait_ended(&self, key: &str, waited: Duration, outcome: &'static str) {
        log::long_wait_ended(self.0.as_ref().and_then(|span| span.id()), key, waited, outcome);
    }
}

#[derive(Debug)]
pub(super) struct Wait {
    caller: Span,
    /// Disabled before the first poll, and after the outcome.
    span: Span,
    subject: Option<Subject>,
}

#[derive(Debug)]
struct Subject {
    origin: Origin,
    key: Box<str>,
    since: Moment,
}

impl Subject {
    fn new<'a>(keys: impl Iterator<Item = &'a str>, origin: &Origin) -> Self {
        let key = keys.collect::<Vec<_>>().join(", ").into();
        Self { origin: origin.clone(), key, since: Moment::now() }
    }

    fn function(&self) -> Option<&str> {
        match &self.origin {
            Origin::Site(site) => Some(site.function),
            Origin::Label(_) | Origin::Unnamed => None,
        }
    }
}

impl Wait {
    pub(super) fn called() -> Self {
        Self { caller: Span::current(), span: Span::none(), subject: None }
    }

    pub(super) fn begins<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a str>,
        origin: &Origin,
        limit: Limit,
    ) -> SharedWaitSpan {
        // A future that was made outside all spans belongs to the one that polls it.
        if self.caller.is_none() {
            self.caller = Span::current();
        }
        let subject = Subject::new(keys, origin);
        self.span = tracing::info_span!(
            target: "redlocked",
            parent: &self.caller,
            "lock_wait",
            lock = subject.origin.label(),
            key = &*subject.key,
            function = subject.function(),
            kind = limit.kind(),
            in_front = Empty,
            fencing_token = Empty,
            outcome = Empty,
            waited_ms = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
        );
        self.subject = Some(subject);
        SharedWaitSpan(Some(Arc::new(self.span.clone())))
    }

    pub(super) fn enter(&self) -> Entered<'_> {
        self.span.enter()
    }

    /// `fence` is zero where none was drawn.
    pub(super) fn hold(&self, fence: u64, limit: Limit) -> HoldSpan {
        let Some(subject) = &self.subject else {
            return HoldSpan::default();
        };
        let fence = Some(fence).filter(|fence| *fence > 0).map(number);
        self.span.record("fencing_token", fence);
        let span = tracing::info_span!(
            target: "redlocked",
            parent: &self.caller,
            "lock_hold",
            lock = subject.origin.label(),
            key = &*subject.key,
            function = subject.function(),
            kind = limit.kind(),
            fencing_token = fence,
            outcome = Empty,
            held_ms = Empty,
            term_end = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
        );
        HoldSpan(Mutex::new(Some(Holding { span, since: Moment::now() })))
    }

    pub(super) fn ends(&mut self, outcome: &'static str) {
        if let Some(subject) = self.subject.take() {
            self.span.record("outcome", outcome);
            self.span.record("waited_ms", milliseconds(Moment::now().since(subject.since)));
            self.span = Span::none();
        }
    }

    pub(super) fn fails(&mut self, error: &LockError) {
        // Callers that skip their work while another one does it expect this.
        if !matches!(error.kind(), LockErrorKind::Busy | LockErrorKind::TickTaken) {
            mark_failed(&self.span, error);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.ends("cancelled");
    }
}

/// `None` after its end: the span is dropped, which closes it, and its lease may live on.
#[derive(Default)]
pub(super) struct HoldSpan(Mutex<Option<Holding>>);

struct Holding {
    span: Span,
    since: Moment,
}

impl HoldSpan {
    fn holding(&self) -> MutexGuard<'_, Option<Holding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn body_span(&self) -> Span {
        self.holding().as_ref().map_or_else(Span::none, |holding| holding.span.clone())
    }

    pub(super) fn ends(&self, reason: LostReason) {
        // Closed outside the mutex: a subscriber may do anything then.
        let holding = self.holding().take();
        if let Some(Holding { span, since }) = holding {
            span.record("outcome", reason.as_str());
            span.record("held_ms", milliseconds(Moment::now().since(since)));
            if reason.is_loss() {
                mark_failed(&span, &reason);
            }
        }
    }
}
