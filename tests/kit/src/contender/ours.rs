//! redlocked: an annotated function, and a call that sees its fencing token.

use std::time::Duration;

use redlocked::{LockError, LockManager, distributed_lock};

use super::{Body, Client, Outcome, TTL, blocking, in_words};

/// An annotated `async fn` without `guard`: the shortest way to use this library.
pub struct Annotated(pub LockManager);

#[distributed_lock(key = key, ttl = TTL, wait = wait, manager = locks)]
async fn annotated(locks: &LockManager, key: &str, wait: Duration, body: Body) -> Result<(), LockError> {
    body.await;
    Ok(())
}

impl Client for Annotated {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move { annotated(&self.0, &key, wait, body).await.map_err(in_words) })
    }
}

/// An annotated `fn`.
pub struct AnnotatedSync(pub LockManager);

#[distributed_lock(key = key, ttl = TTL, wait = wait, manager = locks)]
fn annotated_sync(
    locks: &LockManager,
    key: &str,
    wait: Duration,
    body: &mut dyn FnMut(),
) -> Result<(), LockError> {
    body();
    Ok(())
}

impl AnnotatedSync {
    /// Calls the function, with an empty body.
    pub fn call(&self, key: &str) {
        annotated_sync(&self.0, key, Duration::ZERO, &mut || ()).unwrap();
    }
}

impl Client for AnnotatedSync {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        let locks = self.0.clone();
        Box::pin(blocking(wait, body, move |body| annotated_sync(&locks, &key, wait, body).map_err(in_words)))
    }
}

/// [`LockRequest::run`](redlocked::LockRequest::run), whose body could ask for its fencing token.
pub struct Run(pub LockManager);

impl Client for Run {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        let request = self.0.lock(key).ttl(TTL).wait(wait);
        Box::pin(async move { request.run_value(async |_| body.await).await.map_err(in_words) })
    }
}
