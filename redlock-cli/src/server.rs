//! Which server, and a manager for it.

use std::env;

use redlocked::{LockError, LockManager, LockManagerBuilder};

use crate::args::ServerArgs;
use crate::exit::{Failure, USAGE};

/// As in the library: the first that is not empty counts.
const ENVIRONMENT: [&str; 2] = ["REDLOCK_URL", "REDIS_URL"];

impl ServerArgs {
    pub(crate) fn builder(&self) -> Result<LockManagerBuilder, Failure> {
        let environment = ENVIRONMENT.iter().filter_map(|name| env::var(name).ok());
        let url = self.url.clone().into_iter().chain(environment).find(|url| !url.is_empty());
        let url = url.ok_or_else(|| {
            Failure::new(USAGE, "there is no address of Redis: give --url, or set REDLOCK_URL or REDIS_URL")
        })?;
        Ok(LockManager::builder(url).prefix(&self.prefix))
    }

    pub(crate) async fn connect(&self) -> Result<LockManager, Failure> {
        let connected: Result<_, LockError> = self.builder()?.connect().await;
        Ok(connected?)
    }
}
