//! Which server, and a manager for it.

use std::env::{self, VarError};
use std::time::Duration;

use redlocked::{LockError, LockManager, LockManagerBuilder};

use crate::args::ServerArgs;
use crate::exit::{Failure, USAGE};

/// As in the library: the first that is not empty counts.
const ENVIRONMENT: [&str; 2] = ["REDLOCK_URL", "REDIS_URL"];
/// Where it is empty, it does not count either.
const PREFIX: &str = "REDLOCK_PREFIX";
/// Where it is empty, it does not count either.
const ALLOW_EVICTION: &str = "REDLOCK_ALLOW_EVICTION";
/// The prefix that the library has by default.
const DEFAULT_PREFIX: &str = "lock:";

impl ServerArgs {
    pub(crate) fn builder(&self) -> Result<LockManagerBuilder, Failure> {
        let (_, url) = self.address()?;
        let builder = LockManager::builder(url).prefix(self.prefix()?);
        // `run` and `wait` tell of long waits themselves.
        let builder = builder.warn_after(Duration::MAX);
        let builder = if self.accepts_eviction()? { builder.allow_eviction(true) } else { builder };
        let Some(ca) = &self.ca else { return Ok(builder) };
        let pem = std::fs::read(ca)
            .map_err(|error| Failure::new(USAGE, format!("cannot read --ca {}: {error}", ca.display())))?;
        Ok(builder.tls_ca(pem))
    }

    /// Where it is said, and what is said there.
    fn address(&self) -> Result<(&'static str, String), Failure> {
        let variables = ENVIRONMENT.iter().filter_map(|name| Some((*name, env::var(name).ok()?)));
        let addresses = self.url.clone().map(|url| ("--url", url)).into_iter().chain(variables);
        addresses.into_iter().find(|(_, url)| !url.is_empty()).ok_or_else(|| {
            Failure::new(USAGE, "there is no address of Redis: give --url, or set REDLOCK_URL or REDIS_URL")
        })
    }

    /// Names this server, whatever the environment says.
    #[cfg(unix)]
    pub(crate) fn resolved(&self) -> Result<Self, Failure> {
        let (_, url) = self.address()?;
        let (prefix, ca) = (Some(self.prefix()?), self.ca.clone());
        Ok(Self { url: Some(url), prefix, ca, allow_eviction: self.accepts_eviction()? })
    }

    /// Where the address is said. What is said there may have a password.
    pub(crate) fn source(&self) -> Result<&'static str, Failure> {
        self.address().map(|(source, _)| source)
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

    fn accepts_eviction(&self) -> Result<bool, Failure> {
        if self.allow_eviction {
            return Ok(true);
        }
        match env::var(ALLOW_EVICTION).as_deref() {
            Ok("true") => Ok(true),
            Ok("false" | "") | Err(VarError::NotPresent) => Ok(false),
            Ok(_) | Err(VarError::NotUnicode(_)) => {
                Err(Failure::new(USAGE, format!("{ALLOW_EVICTION} is neither `true` nor `false`")))
            }
        }
    }

    /// For a command that only reads: it does no harm on a server that may evict locks.
    pub(crate) async fn connect_to_read(&self) -> Result<LockManager, Failure> {
        let connected: Result<_, LockError> = self.builder()?.allow_eviction(true).connect().await;
        Ok(connected?)
    }

    /// Connects for a command that may change something. The manager sends such a request once, and the request fails if
    /// the manager moves to another thread meanwhile. With a thread of its own, it does not move.
    pub(crate) async fn connect(&self) -> Result<LockManager, Failure> {
        let connected: Result<_, LockError> = self.builder()?.own_thread(true).connect().await;
        Ok(connected?)
    }
}
