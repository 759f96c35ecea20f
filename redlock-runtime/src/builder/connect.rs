//! Connects a manager with an address and settings.

use super::LockManagerBuilder;
use crate::address::Address;
use crate::base::error::LockError;
use crate::base::telemetry;
use crate::base::token::{self, Token};
use crate::block_on::block_on;
use crate::engine::EngineSettings;
use crate::engine::handle::Engine;
use crate::engine::redis::node::NodeSettings;
use crate::engine::redis::wire::seen_fences::SeenFences;
use crate::engine::topology::address::{parse, without_credentials};
use crate::manager::LockManager;

impl LockManager {
    /// Connects to the server at `address` with the default settings, and returns when the
    /// connection is open or has failed. The address is a text, or the client that the program
    /// already has: see [`Address`].
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidUrl`] when the address is not valid
    /// - [`LockError::InvalidSetting`] when a setting is not valid
    /// - [`LockError::Unavailable`] when the manager cannot reach the server
    /// - [`LockError::Misconfigured`] for a wrong password, a missing permission, a certificate
    ///   that is not trusted, or an eviction policy that the manager refuses
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let locks = LockManager::connect("memory://").await?;
    /// locks.set_global();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(address: impl Into<Address>) -> Result<Self, LockError> {
        Self::builder(address).connect().await
    }

    /// Connects as [`connect`](Self::connect), for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{LockError, LockManager};
    ///
    /// let _locks = LockManager::connect_blocking("memory://")?;
    /// let refused = LockManager::connect_blocking("ftp://example.com");
    /// assert!(matches!(refused, Err(LockError::InvalidUrl { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_blocking(address: impl Into<Address>) -> Result<Self, LockError> {
        Self::builder(address).connect_blocking()
    }

    /// Returns a builder with the default settings for `address`, which is a text, or the client
    /// that the program already has: see [`Address`]. It sends nothing, and does not check
    /// `address` yet.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let locks = LockManager::builder("memory://").prefix("shop:lock:").connect_blocking()?;
    /// # let _ = locks;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(address: impl Into<Address>) -> LockManagerBuilder {
        LockManagerBuilder::new(address.into())
    }
}

impl LockManagerBuilder {
    /// Connects, and returns when the connection is open or has failed.
    ///
    /// # Errors
    ///
    /// As [`LockManager::connect`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// let locks = redlocked::LockManager::builder("memory://").prefix("shop:").connect().await?;
    /// # let _ = locks;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(self) -> Result<LockManager, LockError> {
        let manager = self.connect_lazy()?;
        manager.capabilities().await?;
        Ok(manager)
    }

    /// Connects as [`connect`](Self::connect), for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`LockManager::connect`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// let locks = redlocked::LockManager::builder("memory://").connect_blocking()?;
    /// # let _ = locks;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_blocking(self) -> Result<LockManager, LockError> {
        let manager = self.connect_lazy()?;
        block_on(manager.engine(), manager.capabilities())?;
        Ok(manager)
    }

    /// Connects in the background, so a service can start while Redis is down. Until Redis is up,
    /// requests wait, or fail with [`LockError::Unavailable`].
    ///
    /// # Errors
    ///
    /// - [`LockError::InvalidUrl`] when the address is not valid
    /// - [`LockError::InvalidSetting`] when a setting is not valid
    /// - [`LockError::Unavailable`] when the operating system starts no thread or has no random
    ///   numbers
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// let locks = redlocked::LockManager::builder("memory://").connect_lazy()?;
    /// # let _ = locks;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_lazy(self) -> Result<LockManager, LockError> {
        telemetry::starts();
        let url = self.address.text();
        if let Some(reason) = self.address.refusal(self.tls.is_set()) {
            return Err(LockError::InvalidUrl {
                url: without_credentials(url).into(),
                reason: reason.into(),
            });
        }
        let instance = Token::of_this_process()
            .map_err(|error| LockError::Unavailable { key: None, reason: token::no_random(error).into() })?;
        let settings = NodeSettings {
            prefix: self.prefix.clone(),
            instance: instance.value().to_owned(),
            foreign_clients: self.foreign_clients,
            allow_eviction: self.allow_eviction,
            tls: self.tls,
            credentials: self.credentials,
            seen: SeenFences::default(),
        };
        let deployment = parse(url, &settings)?;
        if self.replicas > 0 && deployment.one_server().is_none() {
            let reason = "it is for one Redis server and its replicas".into();
            return Err(LockError::InvalidSetting { setting: "replicas", reason });
        }
        self.defaults.check()?;
        let engine_settings = EngineSettings {
            io_timeout: self.io_timeout,
            replicas: self.replicas,
            node_timeout: self.node_timeout.min(self.io_timeout),
            max_ttl: self.max_ttl,
            cohort: self.cohort,
            warn_after: telemetry::limit_of_waits(self.warn_after),
            own_thread: self.own_thread,
        };
        let engine = Engine::start(deployment, engine_settings, self.events).map_err(|error| {
            LockError::Unavailable {
                key: None,
                reason: format!("the thread of the lock manager cannot be started: {error}").into(),
            }
        })?;
        let engine =
            engine.with_prefix(self.prefix).releasing_in_background(self.defaults.release_in_background);
        Ok(LockManager::new(engine, self.io_timeout, self.max_waiters, self.defaults))
    }
}
