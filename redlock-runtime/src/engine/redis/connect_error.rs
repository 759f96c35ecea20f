//! The error of opening a connection.

use redis::RedisError;

pub(crate) enum ConnectError {
    TimedOut,
    Failed(RedisError),
    /// Permanent, with the reason.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "for what is wrong with a certificate"))]
    Refused(String),
    /// The program's function gave no credentials, with the reason.
    NoCredentials(String),
}
