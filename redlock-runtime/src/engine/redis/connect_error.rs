//! The error of opening a connection.

use super::failure::Failure;

pub(super) enum ConnectError {
    TimedOut,
    Failed(Failure),
    /// Permanent, with the reason.
    Refused(String),
    /// The program's function gave no credentials, with the reason.
    NoCredentials(String),
}
