//! The process-wide manager: set by the program, or made from the environment.

use std::env;
use std::sync::{PoisonError, RwLock};

use crate::base::environment;
use crate::base::error::LockError;
use crate::manager::LockManager;

static GLOBAL: RwLock<Option<Global>> = RwLock::new(None);

enum Global {
    /// The program has set it.
    Set(LockManager),
    /// It was started for the address in the environment.
    OfEnvironment(LockManager),
}

impl Global {
    fn manager(&self) -> Option<LockManager> {
        match self {
            Self::Set(manager) => Some(manager.clone()),
            Self::OfEnvironment(manager) => (!environment::is_ignored()).then(|| manager.clone()),
        }
    }
}

/// The address for a program that does not call `set_global`: the first of these variables that is
/// not empty.
fn url_of_environment() -> Option<String> {
    if environment::is_ignored() {
        return None;
    }
    ["REDLOCK_URL", "REDIS_URL"]
        .into_iter()
        .filter_map(|name| env::var(name).ok())
        .find(|url| !url.is_empty())
}

impl LockManager {
    /// Makes this the process-wide manager, which annotated functions use unless they name another
    /// one. It replaces an earlier one, whose guards keep their locks.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// LockManager::connect_blocking("memory://")?.set_global();
    /// LockManager::global()?.lock("cron:nightly").acquire_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_global(&self) {
        *GLOBAL.write().unwrap_or_else(PoisonError::into_inner) = Some(Global::Set(self.clone()));
    }

    /// The process-wide manager: the one that [`set_global`](Self::set_global) set, else one for
    /// the address in the environment variable `REDLOCK_URL` or `REDIS_URL`, started at the first
    /// use. The call does not wait for the connection.
    ///
    /// With the feature `testing`, the manager that `Testing::global_here` has set for this thread
    /// comes first. In a process that has used `Testing`, the environment does not count: a test that
    /// sets no manager must not lock the server that it names.
    ///
    /// # Errors
    ///
    /// [`LockError::NotConfigured`] when there is neither; [`LockError::InvalidUrl`] when the
    /// address in the environment cannot be used. There is no other fallback.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked::{LockError, LockManager};
    ///
    /// match LockManager::global() {
    ///     Ok(_) | Err(LockError::NotConfigured) => {}
    ///     Err(other) => panic!("{other}"),
    /// }
    /// ```
    pub fn global() -> Result<Self, LockError> {
        #[cfg(feature = "testing")]
        if let Some(manager) = crate::testing::global_here() {
            return Ok(manager);
        }
        let set = GLOBAL.read().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Global::manager);
        if let Some(manager) = set {
            return Ok(manager);
        }
        let mut global = GLOBAL.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(manager) = global.as_ref().and_then(Global::manager) {
            return Ok(manager);
        }
        let manager = Self::builder(url_of_environment().ok_or(LockError::NotConfigured)?).connect_lazy()?;
        *global = Some(Global::OfEnvironment(manager.clone()));
        Ok(manager)
    }
}
