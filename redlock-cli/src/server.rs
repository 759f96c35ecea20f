//! Which server, and a manager for it.

use std::env::{self, VarError};

use redlocked::{LockError, LockManager, LockManagerBuilder};

use crate::args::ServerArgs;
use crate::exit::{Failure, USAGE};

/// As in the library: the first that is not empty counts.
const ENVIRONMENT: [&str; 2] = ["REDLOCK_URL", "REDIS_URL"];
/// Where it is empty, it does not count either.
const PREFIX: &str = "REDLOCK_PREFIX";
/// That of the library.
const DEFAULT_PREFIX: &str = "lock:";

impl ServerArgs {
    pub(crate) fn builder(&self) -> Result<LockManagerBuilder, Failure> {
        let environment = ENVIRONMENT.iter().filter_map(|name| env::var(name).ok());
        let url = self.url.clone().into_iter().chain(environment).find(|url| !url.is_empty());
        let url = url.ok_or_else(|| {
            Failure::new(USAGE, "there is no address of Redis: give --url, or set REDLOCK_URL or REDIS_URL")
        })?;
        Ok(LockManager::builder(url).prefix(self.prefix()?))
    }

    /// The start of every key on the server.
    pub(crate) fn prefix(&self) -> Result<String, Failure> {
        if let Some(prefix) = &self.prefix {
            return Ok(prefix.clone());
        }
        match env::var(PREFIX) {
            Ok(prefix) if !prefix.is_empty() => Ok(prefix),
            Ok(_) | Err(VarError::NotPresent) => Ok(DEFAULT_PREFIX.to_owned()),
            Err(VarError::NotUnicode(_)) => Err(Failure::new(USAGE, format!("{PREFIX} is not UTF-8"))),
        }
    }

    pub(crate) async fn connect(&self) -> Result<LockManager, Failure> {
        let connected: Result<_, LockError> = self.builder()?.connect().await;
        Ok(connected?)
    }
}
