//! Locks of bodies that run once: their requests, and the records of their results.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Kind;
use crate::base::owner::Owner;

/// A body that runs once for its key: its result is kept in a record beside the lock, and later
/// callers get it in place of the lock.
#[derive(Debug)]
#[cfg_attr(not(feature = "once"), allow(dead_code, reason = "the feature makes them"))]
pub(crate) struct Once {
    /// The fingerprint of the request that the key stands for; `-` without one.
    pub(crate) fingerprint: Box<str>,
    /// How long the record lasts, from when it is written.
    pub(crate) lasts: Duration,
    /// A body that was interrupted runs again.
    pub(crate) reruns: bool,
    /// A result that cannot be decoded: it counts as none.
    pub(crate) ignores: Option<Arc<[u8]>>,
    /// The result of the body, if it was done before: where the engine leaves it for the caller.
    pub(crate) result: OnceLock<Arc<[u8]>>,
}

/// A request for such a lock.
#[derive(Clone, Debug)]
pub(crate) struct OnceRequest {
    pub(crate) once: Arc<Once>,
    /// The result that the release stores, if any.
    pub(crate) run: Run,
}

impl OnceRequest {
    /// The kind of a lock of such a body.
    pub(crate) fn of(once: Arc<Once>, run: Run) -> Kind {
        Kind::Once(Box::new(Self { once, run }))
    }
}

/// The state of a body that runs once, when its lock is released.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "once"), allow(dead_code, reason = "the feature makes them"))]
pub(crate) enum Run {
    /// It has not begun, or has failed: it may run again.
    Undone,
    /// It has begun, and nobody knows its end.
    Interrupted,
    /// It has this result, which is stored in the same step in which the lock is released.
    Done(Arc<[u8]>),
}

/// The record of a body that runs once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RunRecord {
    /// Since 1970, by the clock of the server: since when it runs, or when it was done.
    pub(crate) since: Duration,
    pub(crate) owner: Option<Owner>,
    /// `-` without one.
    pub(crate) fingerprint: Box<str>,
    /// `None` while it runs, or when it was interrupted.
    pub(crate) result: Option<Arc<[u8]>>,
}

/// Why a body that runs once does not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NotRun {
    /// It is done, and this is its result.
    Done(Arc<[u8]>),
    /// The key stands for another request.
    Reused,
    /// It was interrupted: by whom and since when, as in [`RunRecord`].
    Interrupted { owner: Option<Owner>, since: Duration },
}
