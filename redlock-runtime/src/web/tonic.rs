//! The answer to a call that tonic handles.

use std::sync::Arc;

use tonic::{Code, Status};

use super::Answer;
use crate::base::error::LockError;

/// The trailer that gRPC clients with a retry policy know:
/// <https://github.com/grpc/proposal/blob/master/A6-client-retries.md>.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// The code, `grpc-retry-pushback-ms` where trying again may help, and a sentence that names no
/// key, no holder and no server: [the table](../redlocked/docs/web/index.html#status-codes).
/// The error itself is the source of the status, which is not sent; with the feature `tracing`, the
/// codes `Internal` and `Unavailable` leave a line in the log. Needs the feature `tonic`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::LockManager;
/// use tonic::{Code, Status};
///
/// let locks = LockManager::connect("memory://tonic-example").await?;
/// let _guard = locks.lock("stock:42").acquire().await?;
///
/// let status = Status::from(locks.lock("stock:42").acquire().await.unwrap_err());
/// assert_eq!(status.code(), Code::Aborted);
/// assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
/// # Ok(())
/// # }
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "tonic")))]
impl From<LockError> for Status {
    fn from(error: LockError) -> Self {
        let answer = Answer::given_to(&error);
        let code = match answer {
            Answer::InUse => Code::Aborted,
            Answer::Done => Code::AlreadyExists,
            Answer::TooManyWait => Code::ResourceExhausted,
            Answer::Unavailable => Code::Unavailable,
            Answer::InvalidName | Answer::Reused => Code::InvalidArgument,
            Answer::Failed => Code::Internal,
        };
        let mut status = Self::new(code, answer.text());
        if let Some(after) = error.retry_after() {
            let milliseconds = i32::try_from(after.as_millis()).unwrap_or(i32::MAX).max(1);
            status.metadata_mut().insert(PUSHBACK, milliseconds.into());
        }
        status.set_source(Arc::new(error));
        status
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use tonic::{Code, Status};

    use super::PUSHBACK;
    use crate::base::error::LockErrorKind;
    use crate::base::error::tests::{SECRET, samples};

    #[test]
    fn each_error_has_its_code_and_tells_a_client_nothing_of_the_service() {
        for error in samples() {
            let kind = error.kind();
            let status = Status::from(error.clone());
            let (code, after) = match kind {
                LockErrorKind::Busy | LockErrorKind::TimedOut => (Code::Aborted, Some("2300")),
                LockErrorKind::TickTaken => (Code::AlreadyExists, None),
                LockErrorKind::QueueFull => (Code::ResourceExhausted, Some("1000")),
                LockErrorKind::NotReplicated | LockErrorKind::Unavailable => {
                    (Code::Unavailable, Some("1000"))
                }
                LockErrorKind::ManagerClosed => (Code::Unavailable, None),
                LockErrorKind::InvalidKey | LockErrorKind::KeyReused => (Code::InvalidArgument, None),
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
                | LockErrorKind::NotLocked => (Code::Internal, None),
            };
            assert_eq!(status.code(), code, "{kind}");
            assert_eq!(
                status.metadata().get(PUSHBACK).and_then(|after| after.to_str().ok()),
                after,
                "{kind}"
            );
            assert_eq!(status.source().map(ToString::to_string), Some(error.to_string()));
            let sent = format!("{} {:?} {:?}", status.message(), status.details(), status.metadata());
            assert!(!sent.contains(SECRET), "{sent}");
        }
    }

    #[cfg(feature = "tracing")]
    #[test]
    fn an_internal_error_and_an_outage_leave_a_line() {
        crate::web::lines::each_failure_leaves_one(|error| {
            matches!(Status::from(error).code(), Code::Internal | Code::Unavailable)
        });
    }
}
