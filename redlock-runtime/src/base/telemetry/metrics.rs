//! The metrics, through the crate `metrics`. Their table is in `docs/operating.md`.
//!
//! A gauge is lowered through the handle that raised it: a recorder that is installed in between
//! sees neither.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    Gauge, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use crate::base::clock::Moment;
use crate::base::error::LockErrorKind;
use crate::base::limit::Limit;
use crate::base::outcome::LostReason;
use crate::base::owner::Origin;

const ATTEMPTS: &str = "redlocked_attempts_total";
const WAIT: &str = "redlocked_wait_seconds";
const WAITING: &str = "redlocked_callers_waiting";
const HOLD: &str = "redlocked_hold_seconds";
const HOLDING: &str = "redlocked_callers_holding";
const LOST: &str = "redlocked_locks_lost_total";
const DOWNGRADES: &str = "redlocked_downgrades_total";
const HAND_OVERS: &str = "redlocked_hand_overs_total";
const RECONNECTS: &str = "redlocked_reconnects_total";
const LEADING: &str = "redlocked_leading";
const TERM: &str = "redlocked_term";
const TERMS: &str = "redlocked_terms_total";

/// The label `lock` of a request that was made by hand and has no label.
const UNLABELLED: &str = "unlabelled";

/// A recorder that is installed later has no descriptions.
pub(super) fn describe() {
    describe_counter!(ATTEMPTS, "Calls for a lock that have ended, by outcome");
    describe_histogram!(WAIT, Unit::Seconds, "From the call for a lock to its outcome");
    describe_gauge!(WAITING, "Calls for a lock without an outcome yet");
    describe_histogram!(HOLD, Unit::Seconds, "From the lock to its release or loss");
    describe_gauge!(HOLDING, "Calls that hold their lock");
    describe_counter!(LOST, "Locks that were lost while they were held, by reason");
    describe_counter!(DOWNGRADES, "Exclusive locks that became shared ones while they were held");
    describe_counter!(HAND_OVERS, "Locks that went from a holder to the next waiter, by way");
    describe_counter!(RECONNECTS, "Connections to Redis that broke");
    describe_gauge!(LEADING, "Elections that this process leads");
    describe_gauge!(TERM, "The number of the last term of this process");
    describe_counter!(TERMS, "Terms of this process that have ended, by how");
    // An alert needs the zero before the first one.
    counter!(RECONNECTS).increment(0);
}

/// A connection broke.
pub(super) fn reconnects() {
    counter!(RECONNECTS).increment(1);
}

fn label(origin: &Origin) -> SharedString {
    match origin {
        Origin::Label(label) => SharedString::from(Arc::clone(label)),
        origin => origin
            .label()
            .map_or(SharedString::const_str(UNLABELLED), |label| SharedString::from(label.to_owned())),
    }
}

/// Exports a zero of what an alert watches, before the first call for a lock of this kind ends: an alert
/// sees the first loss, full queue or bug only if it saw the zero.
fn begin_series(lock: &SharedString, kind: &'static str) {
    static BEGUN: Mutex<BTreeMap<SharedString, Vec<&'static str>>> = Mutex::new(BTreeMap::new());
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    if begun.get(lock).is_some_and(|kinds| kinds.contains(&kind)) {
        return;
    }
    begun.entry(lock.clone()).or_default().push(kind);
    for outcome in [
        LockErrorKind::QueueFull,
        LockErrorKind::Deadlock,
        LockErrorKind::InvalidKey,
        LockErrorKind::InvalidRequest,
    ] {
        let outcome = outcome.as_str();
        counter!(ATTEMPTS, "lock" => lock.clone(), "kind" => kind, "outcome" => outcome).increment(0);
    }
    for reason in LostReason::ALL {
        let is_of_no_hold =
            matches!(reason, LostReason::Forked | LostReason::TicketOver | LostReason::TicketUsed);
        if reason.is_loss() && !is_of_no_hold {
            counter!(LOST, "lock" => lock.clone(), "reason" => reason.as_str()).increment(0);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct HandOverCounter {
    lock: SharedString,
}

impl HandOverCounter {
    pub(super) fn handed_over(&self, by: &'static str) {
        counter!(HAND_OVERS, "lock" => self.lock.clone(), "by" => by).increment(1);
    }
}

/// `None` before the first poll, and after the outcome.
#[derive(Debug)]
pub(super) struct Wait(Option<Waiting>);

struct Waiting {
    lock: SharedString,
    /// Half as large as the name of its kind: each future under a lock has room for it.
    limit: Limit,
    since: Moment,
    callers: Gauge,
}

impl Wait {
    pub(super) fn called() -> Self {
        Self(None)
    }

    pub(super) fn begins(&mut self, origin: &Origin, limit: Limit) -> HandOverCounter {
        let lock = label(origin);
        begin_series(&lock, limit.kind());
        let callers = gauge!(WAITING, "lock" => lock.clone(), "kind" => limit.kind());
        callers.increment(1);
        self.0 = Some(Waiting { lock: lock.clone(), limit, since: Moment::now(), callers });
        HandOverCounter { lock }
    }

    pub(super) fn hold(&self) -> Option<HoldMetrics> {
        let &Waiting { ref lock, limit, .. } = self.0.as_ref()?;
        let kind = limit.kind();
        let callers = gauge!(HOLDING, "lock" => lock.clone(), "kind" => kind);
        callers.increment(1);
        let part = HoldOfKind { kind, since: Moment::now(), callers };
        let is_lost = AtomicBool::new(false);
        Some(HoldMetrics { lock: lock.clone(), part: Mutex::new(Some(part)), is_lost })
    }

    /// It has waited for no other holder: its time would say nothing.
    pub(super) fn joins(&mut self) {
        if let Some(Waiting { lock, limit, callers, .. }) = self.0.take() {
            let kind = limit.kind();
            callers.decrement(1);
            counter!(ATTEMPTS, "lock" => lock, "kind" => kind, "outcome" => "joined").increment(1);
        }
    }

    pub(super) fn ends(&mut self, outcome: &'static str) {
        if let Some(Waiting { lock, limit, since, callers }) = self.0.take() {
            let kind = limit.kind();
            callers.decrement(1);
            histogram!(WAIT, "lock" => lock.clone(), "kind" => kind).record(Moment::now().since(since));
            counter!(ATTEMPTS, "lock" => lock, "kind" => kind, "outcome" => outcome).increment(1);
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.ends("cancelled");
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("lock", &self.lock).finish_non_exhaustive()
    }
}

/// A term of a leader.
pub(super) struct Lead {
    lock: SharedString,
    leading: Gauge,
}

impl Lead {
    #[expect(clippy::cast_precision_loss, reason = "a fencing token is below 2^53")]
    pub(super) fn begins(label: &Arc<str>, term: u64) -> Self {
        let lock = SharedString::from(Arc::clone(label));
        let leading = gauge!(LEADING, "lock" => lock.clone());
        leading.increment(1);
        gauge!(TERM, "lock" => lock.clone()).set(term as f64);
        Self { lock, leading }
    }

    pub(super) fn ends(&self, end: &'static str) {
        self.leading.decrement(1);
        counter!(TERMS, "lock" => self.lock.clone(), "end" => end).increment(1);
    }
}

/// A hold, or the part of it with a lock of one kind: a downgrade ends the first part, and begins the second.
struct HoldOfKind {
    kind: &'static str,
    since: Moment,
    callers: Gauge,
}

impl HoldOfKind {
    fn ends(self, lock: &SharedString) {
        self.callers.decrement(1);
        let held = Moment::now().since(self.since);
        histogram!(HOLD, "lock" => lock.clone(), "kind" => self.kind).record(held);
    }
}

pub(super) struct HoldMetrics {
    lock: SharedString,
    /// `None` after its end. The engine downgrades and loses the lock, and the caller releases it, on other threads.
    part: Mutex<Option<HoldOfKind>>,
    is_lost: AtomicBool,
}

impl HoldMetrics {
    /// The lock is shared from now on.
    pub(super) fn downgrades(&self) {
        let kind = Limit::NONE.kind();
        let mut part = self.part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(exclusive) = part.take_if(|part| part.kind != kind) {
            let callers = gauge!(HOLDING, "lock" => self.lock.clone(), "kind" => kind);
            callers.increment(1);
            *part = Some(HoldOfKind { kind, since: Moment::now(), callers });
            exclusive.ends(&self.lock);
            counter!(DOWNGRADES, "lock" => self.lock.clone()).increment(1);
        }
    }

    pub(super) fn ends(&self, reason: LostReason) {
        // Also after its end: the engine may know of a loss just after the guard has begun to
        // release.
        if reason.is_loss() && !self.is_lost.swap(true, Ordering::Relaxed) {
            counter!(LOST, "lock" => self.lock.clone(), "reason" => reason.as_str()).increment(1);
        }
        if let Some(part) = self.part.lock().unwrap_or_else(PoisonError::into_inner).take() {
            part.ends(&self.lock);
        }
    }
}
