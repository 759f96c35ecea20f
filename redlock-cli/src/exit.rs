//! The exit codes, and the failures behind them. They are those of `flock(1)`: 1, or a code of
//! `sysexits.h`.

use std::io;

use redlocked::LockError;

pub(crate) const OK: u8 = 0;
/// The lock is not as the command needs it: held by another caller, or free.
pub(crate) const CONFLICT: u8 = 1;
pub(crate) const USAGE: u8 = 64;
/// `flock` ends with it, too, when its command cannot be started.
#[cfg(unix)]
pub(crate) const NO_COMMAND: u8 = 69;
#[cfg(unix)]
pub(crate) const LOST: u8 = 70;
pub(crate) const OS: u8 = 71;
/// Redis cannot be reached: the same call may succeed later.
pub(crate) const UNAVAILABLE: u8 = 75;
/// Redis refuses: the same call fails until a setting is changed.
pub(crate) const MISCONFIGURED: u8 = 78;

/// Why a command ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// Empty when there is nothing to tell.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let code = match &error {
            LockError::Busy { .. }
            | LockError::TimedOut { .. }
            | LockError::TickTaken { .. }
            | LockError::QueueFull { .. } => CONFLICT,
            LockError::InvalidKey { .. }
            | LockError::InvalidRequest { .. }
            | LockError::InvalidSetting { .. }
            | LockError::InvalidUrl { .. }
            | LockError::NotConfigured => USAGE,
            LockError::Misconfigured { .. } => MISCONFIGURED,
            #[cfg(unix)]
            LockError::Lost { .. } => LOST,
            _ => UNAVAILABLE,
        };
        // The library names its option. A person at a terminal has this one.
        Self::new(code, format!("{error:?}").replace("`allow_eviction`", "--allow-eviction"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // As in `redlocked list | head`: the reader has all that it wants.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(OK, "");
        }
        Self::new(OS, error.to_string())
    }
}
