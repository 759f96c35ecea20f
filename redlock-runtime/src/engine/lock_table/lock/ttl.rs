//! The ttl of a held lock, and its changes until the server has confirmed them.
//!
//! A change goes along with each renewal until one is confirmed. A shorter ttl shortens the lease
//! from when it was sent, because the server may execute it at any time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::lease::safe_until;
use crate::engine::command::Extension;
use crate::engine::protocol::{Action, Disconnected, Refusal};

/// The error of a caller whose TTL change is not confirmed in time.
const UNCONFIRMED: &str = "the new ttl is not confirmed, and goes along with the next renewals";

pub(super) struct Ttl {
    current: Duration,
    /// It is boxed because most ttls are never changed.
    changed: Option<Box<Changed>>,
}

#[derive(Default)]
struct Changed {
    /// After a shorter ttl, which the server may not have taken: by then the key has expired by the
    /// longer one.
    longer_until: Option<Moment>,
    /// The number of changes so far.
    count: u32,
    /// The changes that are not confirmed, in their order.
    open: Vec<TtlChange>,
}

/// A change of the ttl, until the server has confirmed it or a later one.
struct TtlChange {
    /// The key may last longer on the server than the new ttl.
    shortens: bool,
    /// After a change that shortens was sent, the key may expire then, unless the server has
    /// confirmed another ttl.
    ends: Option<Moment>,
    /// The caller that waits for the answer, and until when.
    caller: Option<(Moment, oneshot::Sender<Result<(), LockError>>)>,
    /// Why the server has refused it for now.
    refused: Option<Arc<str>>,
}

impl Ttl {
    pub(super) fn new(current: Duration) -> Self {
        Self { current, changed: None }
    }

    pub(super) fn current(&self) -> Duration {
        self.current
    }

    /// The caller has its answer `by` then.
    pub(super) fn change(&mut self, now: Moment, extension: Extension, by: Moment) {
        // The server may not have executed an earlier, shorter change: this one must shorten, too.
        let shortens = extension.ttl < self.current || self.shortens();
        let changed = self.changed.get_or_insert_default();
        changed.longer_until = changed.longer_until.max(Some(now.after(self.current)));
        changed.count = changed.count.saturating_add(1);
        let caller = Some((by, extension.caller));
        changed.open.push(TtlChange { shortens, ends: None, caller, refused: None });
        self.current = extension.ttl;
    }

    /// The changes that are not confirmed.
    fn open(&self) -> &[TtlChange] {
        self.changed.as_ref().map_or(&[], |changed| &changed.open)
    }

    fn open_mut(&mut self) -> &mut [TtlChange] {
        self.changed.as_mut().map_or(&mut [], |changed| &mut changed.open)
    }

    fn count(&self) -> u32 {
        self.changed.as_ref().map_or(0, |changed| changed.count)
    }

    /// True when no change is open.
    pub(super) fn is_confirmed(&self) -> bool {
        self.open().is_empty()
    }

    /// True when a change is to be sent that a caller waits for, or that shortens the ttl.
    pub(super) fn wants_renewal(&self) -> bool {
        self.open().iter().any(|change| change.shortens || change.caller.is_some())
    }

    /// A renewal with the current ttl.
    pub(super) fn renewal(&self) -> Action {
        Action::Renew { nth: self.count(), shortens: self.shortens() }
    }

    fn shortens(&self) -> bool {
        self.open().last().is_some_and(|last| last.shortens)
    }

    /// That renewal is being sent. Until when the lock may be relied on if it shortens the ttl.
    pub(super) fn set_sent(&mut self, now: Moment) -> Option<Moment> {
        let safe = safe_until(now, self.current);
        let last = self.open_mut().last_mut().filter(|last| last.shortens)?;
        Some(*last.ends.get_or_insert(safe))
    }

    /// The number of open changes that the `nth` confirms; `None` when all were confirmed before:
    /// over a quorum one reply may overtake another.
    pub(super) fn confirmed_by(&self, nth: u32) -> Option<usize> {
        let later = usize::try_from(self.count().saturating_sub(nth)).unwrap_or(usize::MAX);
        self.open().len().checked_sub(later)
    }

    /// The earliest end that a change behind the first `confirmed` may bring.
    pub(super) fn ends_after(&self, confirmed: usize) -> Option<Moment> {
        self.open().iter().skip(confirmed).filter_map(|change| change.ends).min()
    }

    /// The server has confirmed so many changes: their callers hear it.
    pub(super) fn confirm(&mut self, confirmed: usize) {
        let changes = self.changed.iter_mut().flat_map(|changed| changed.open.drain(..confirmed));
        for (_, caller) in changes.filter_map(|change| change.caller) {
            let _ = caller.send(Ok(()));
        }
    }

    /// The server refused. Until an operator acts: callers of changes get an error.
    pub(super) fn set_refused(&mut self, key: &Arc<str>, refusal: &Refusal) {
        for change in self.open_mut() {
            if let Refusal::Permanent(_) = refusal {
                if let Some((_, caller)) = change.caller.take() {
                    let _ = caller.send(Err(refusal.clone().error(Some(Arc::clone(key)))));
                }
            } else {
                change.refused = Some(refusal.clone().words());
            }
        }
    }

    /// Returns when the first caller of a change is to be answered.
    pub(super) fn answers_at(&self) -> Option<Moment> {
        self.open().iter().filter_map(|change| Some(change.caller.as_ref()?.0)).min()
    }

    /// Answers the callers of changes that have waited for too long. The next renewals carry the new
    /// ttl all the same.
    pub(super) fn answer_late(&mut self, now: Moment, key: &Arc<str>, trouble: Option<&Disconnected>) {
        for change in self.open_mut() {
            let Some((_, caller)) = change.caller.take_if(|(by, _)| *by <= now) else {
                continue;
            };
            let error = if let Some(trouble) = trouble {
                trouble.error(Some(Arc::clone(key)))
            } else {
                let reason = change.refused.as_deref().unwrap_or("Redis gave no answer in time");
                LockError::unavailable(key, format!("{reason}; {UNCONFIRMED}"))
            };
            let _ = caller.send(Err(error));
        }
    }

    /// The lease is over: no change is sent any more, and their callers get no answer.
    pub(super) fn drop_changes(&mut self) {
        self.changed.iter_mut().for_each(|changed| changed.open.clear());
    }

    /// For how long the key may last on the server by this ttl, or by a longer one before it.
    pub(super) fn may_last(&self, now: Moment) -> Duration {
        let longer_until = self.changed.as_ref().and_then(|changed| changed.longer_until);
        longer_until.map_or(self.current, |until| self.current.max(until.since(now)))
    }
}
