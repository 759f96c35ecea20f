#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod history;
mod live;
mod pages;
mod routes;
mod state;
mod text;

use std::sync::Arc;

use axum::Router;
use redlocked::LockManager;

use crate::state::State;

/// The pages of one manager's locks, for the router of a service.
///
/// A page asks the server while somebody looks at it, and at most once a second for all browsers
/// together. Nothing runs otherwise.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use axum::Router;
/// use redlocked::LockManager;
/// use redlocked_dashboard::Dashboard;
///
/// let locks = LockManager::connect("memory://dashboard-example").await?;
/// // Put the login of the service in front of it.
/// let app: Router = Router::new().nest("/admin/locks", Dashboard::new(&locks).router());
/// # drop(app);
/// # Ok(())
/// # }
/// ```
#[must_use = "a dashboard is shown by its `router`"]
pub struct Dashboard {
    state: State,
}

impl Dashboard {
    /// Pages that only read.
    pub fn new(locks: &LockManager) -> Self {
        Self { state: State::new(locks.clone()) }
    }

    /// Lets who sees the pages release a lock, and clear the record of a tick or of a body that runs
    /// once. Not by default. They type the key first, and each such act is a line in the log, at the
    /// level `WARN`, with the address that it came from.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://dashboard-release-example")?;
    /// use redlocked_dashboard::Dashboard;
    ///
    /// let app: axum::Router = Dashboard::new(&locks).allow_release(true).router();
    /// # drop(app);
    /// # Ok(())
    /// # }
    /// ```
    pub fn allow_release(mut self, allow: bool) -> Self {
        self.state.allow_release = allow;
        self
    }

    /// The path of the pages in the browser, such as `/admin/locks`. By default it is known from
    /// [`nest`](axum::Router::nest); behind a proxy that cuts off a part of the path, name it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://dashboard-path-example")?;
    /// use redlocked_dashboard::Dashboard;
    ///
    /// let app: axum::Router = Dashboard::new(&locks).base_path("/admin/locks").router();
    /// # drop(app);
    /// # Ok(())
    /// # }
    /// ```
    pub fn base_path(mut self, path: impl Into<String>) -> Self {
        let path: String = path.into();
        self.state.base_path = Some(path.trim_end_matches('/').to_owned());
        self
    }

    /// The routes. They are also a [`tower::Service`](https://docs.rs/tower) of http requests, for
    /// another framework than axum.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://dashboard-router-example")?;
    /// let app: axum::Router = redlocked_dashboard::Dashboard::new(&locks).router();
    /// # drop(app);
    /// # Ok(())
    /// # }
    /// ```
    pub fn router(self) -> Router {
        routes::router(Arc::new(self.state))
    }
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dashboard").field("allow_release", &self.state.allow_release).finish_non_exhaustive()
    }
}
