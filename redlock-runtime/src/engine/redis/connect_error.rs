//! Why a connection could not be opened.

use redis::RedisError;

/// Why no connection was opened.
pub(crate) enum ConnectError {
    TimedOut,
    Failed(RedisError),
    /// In words; waiting does not help.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "for what is wrong with a certificate"))]
    Refused(String),
}
