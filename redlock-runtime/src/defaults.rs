//! [`Defaults`]: what applies where a request leaves an option out.

use std::time::Duration;

use crate::base::error::LockError;
use crate::base::lease::{MIN_TTL, ttl_is_in_range};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) ttl: Duration,
    /// `None`: without a limit.
    pub(crate) wait: Option<Duration>,
    /// `None`: without a limit.
    pub(crate) max_hold: Option<Duration>,
    /// A call does not wait for its release.
    pub(crate) release_in_background: bool,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait: Some(Duration::ZERO),
            max_hold: None,
            release_in_background: false,
        }
    }
}

impl Defaults {
    /// Returns an error for a default that no lock can have.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        let out_of_range =
            |setting, reason: String| Err(LockError::InvalidSetting { setting, reason: reason.into() });
        if !ttl_is_in_range(self.ttl) {
            let ttl = self.ttl;
            let reason = format!("{ttl:?} is out of range; it must be at least 10 ms and below 2^53 ms");
            return out_of_range("default_ttl", reason);
        }
        match self.max_hold.filter(|max_hold| *max_hold < MIN_TTL) {
            Some(max_hold) => out_of_range(
                "default_max_hold",
                format!("{max_hold:?} is out of range; it must be at least 10 ms"),
            ),
            None => Ok(()),
        }
    }
}
