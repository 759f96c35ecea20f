//! The response to the client of a service for each [`LockError`]: one table, and an adapter for
//! each framework.
//!
//! The answer is for strangers. It holds no key, which may name a customer, no holder, no address
//! and no reason of the server; the error itself stays in the process, where a log can have it.

#[cfg(feature = "actix-web")]
mod actix;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "tonic")]
mod tonic;

use crate::base::error::LockError;
use crate::base::error::LockErrorKind;
use crate::base::telemetry;

/// The response to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// Another caller has the lock. No 503: proxies count those as failures of this instance, and
    /// repeat the request elsewhere, where the lock is held as well.
    InUse,
    /// What the request asks for was done for this tick. No failure: whoever sends it at each tick
    /// to all instances would send it again.
    Done,
    TooManyWait,
    /// An outage, or the end of this process.
    Unavailable,
    /// A key that a template has written is refused only for a value in it, which came with the
    /// request.
    InvalidName,
    /// The key of a request that is done, with another request.
    Reused,
    /// A defect or a setting of the service, or a body that was stopped in the middle.
    Failed,
}

impl Answer {
    /// The answer that is given now. One that blames the service leaves a line in the log, because
    /// its client gets no reason that it could report.
    fn given_to(error: &LockError) -> Self {
        let answer = Self::to(error);
        match answer {
            Self::Failed => telemetry::request_failed(error),
            Self::Unavailable => telemetry::request_not_served(error),
            Self::InUse | Self::Done | Self::TooManyWait | Self::InvalidName | Self::Reused => {}
        }
        answer
    }

    fn to(error: &LockError) -> Self {
        match error.kind() {
            LockErrorKind::Busy | LockErrorKind::TimedOut => Self::InUse,
            LockErrorKind::TickTaken => Self::Done,
            LockErrorKind::QueueFull => Self::TooManyWait,
            LockErrorKind::NotReplicated | LockErrorKind::Unavailable | LockErrorKind::ManagerClosed => {
                Self::Unavailable
            }
            LockErrorKind::InvalidKey => Self::InvalidName,
            LockErrorKind::KeyReused => Self::Reused,
            LockErrorKind::Deadlock
            | LockErrorKind::Lost
            | LockErrorKind::Fenced
            | LockErrorKind::Store
            | LockErrorKind::Interrupted
            | LockErrorKind::Undecodable
            | LockErrorKind::NotStored
            | LockErrorKind::Misconfigured
            | LockErrorKind::ShutdownIncomplete
            | LockErrorKind::InvalidRequest
            | LockErrorKind::InvalidSetting
            | LockErrorKind::InvalidUrl
            | LockErrorKind::NotConfigured
            | LockErrorKind::NotLocked => Self::Failed,
        }
    }

    #[cfg(any(feature = "axum", feature = "actix-web"))]
    fn http_status(self) -> u16 {
        match self {
            Self::InUse => 409,
            Self::Done => 200,
            Self::TooManyWait => 429,
            Self::Unavailable => 503,
            Self::InvalidName => 400,
            Self::Reused => 422,
            Self::Failed => 500,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::InUse => "another request is using this resource: try again later",
            Self::Done => "nothing is left to do until the next time: this was begun elsewhere",
            Self::TooManyWait => "too many requests wait for this resource: try again later",
            Self::Unavailable => "the service is unavailable for the moment: try again later",
            Self::Reused => "this key was used for another request: use a new one",
            Self::InvalidName => "the name of this resource is empty, too long, or reserved",
            Self::Failed => "the service failed to handle this request",
        }
    }
}

/// The value of `Retry-After`: whole seconds, rounded up, because a client that
/// retries too early is refused again.
#[cfg(any(feature = "axum", feature = "actix-web"))]
fn retry_after_seconds(error: &LockError) -> Option<u64> {
    let after = error.retry_after()?;
    Some(after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0)).max(1))
}

#[cfg(any(feature = "axum", feature = "actix-web"))]
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

#[cfg(all(test, feature = "tracing"))]
mod lines;

#[cfg(all(test, any(feature = "axum", feature = "actix-web")))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::error::Holder;

    /// The status and the `Retry-After` of the samples.
    pub(super) fn expected(kind: LockErrorKind) -> (u16, Option<&'static str>) {
        match kind {
            LockErrorKind::Busy | LockErrorKind::TimedOut => (409, Some("3")),
            LockErrorKind::TickTaken => (200, None),
            LockErrorKind::QueueFull => (429, Some("1")),
            LockErrorKind::NotReplicated | LockErrorKind::Unavailable => (503, Some("1")),
            LockErrorKind::ManagerClosed => (503, None),
            LockErrorKind::InvalidKey => (400, None),
            LockErrorKind::KeyReused => (422, None),
            LockErrorKind::Deadlock
            | LockErrorKind::Lost
            | LockErrorKind::Fenced
            | LockErrorKind::Store
            | LockErrorKind::Interrupted
            | LockErrorKind::Undecodable
            | LockErrorKind::NotStored
            | LockErrorKind::Misconfigured
            | LockErrorKind::ShutdownIncomplete
            | LockErrorKind::InvalidRequest
            | LockErrorKind::InvalidSetting
            | LockErrorKind::InvalidUrl
            | LockErrorKind::NotConfigured
            | LockErrorKind::NotLocked => (500, None),
        }
    }

    #[test]
    fn a_client_that_is_told_when_to_come_again_never_comes_too_soon() {
        let told = |usual: Duration| {
            let holder = Holder { usual_hold: Some(usual), ..Holder::default() };
            retry_after_seconds(&LockError::Busy { key: "k".into(), holder: holder.into() })
        };
        for (usual, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (29_999, 30), (30_000, 30)] {
            assert_eq!(told(Duration::from_millis(usual)), Some(seconds), "{usual} ms");
        }
        assert_eq!(told(Duration::MAX), Some(u64::MAX));
        assert_eq!(retry_after_seconds(&LockError::NotConfigured), None);
    }
}
