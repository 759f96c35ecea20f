//! Ways to run a body under a lock, which the benches and the comparison with the peers measure
//! beside each other.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

mod direct;
mod ours;

pub use direct::Direct;
pub use ours::{Annotated, AnnotatedSync, Run};

/// The code that runs under the lock.
pub type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An error says why the caller did not get the lock.
pub type Outcome<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// One process of a fleet, with a connection of its own.
pub trait Client: Send + Sync {
    /// Waits for the lock in the contender's own way, up to `wait` (zero: one try), runs the body
    /// and releases the lock.
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_>;
}

/// All processes of one contender.
pub type Clients = Vec<Arc<dyn Client>>;

/// The lease of each contender.
pub const TTL: Duration = Duration::from_secs(30);

/// A body that does nothing.
pub fn empty() -> Body {
    Box::pin(async {})
}

/// Runs blocking code: on this thread when it is one try, else on a thread of its own.
pub async fn blocking(
    wait: Duration,
    body: Body,
    locked: impl FnOnce(&mut dyn FnMut()) -> Result<(), String> + Send + 'static,
) -> Result<(), String> {
    let mut body = Some(body);
    if wait.is_zero() {
        let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
        // The body of one try does not wait for anything.
        return locked(&mut || {
            if let Some(mut body) = body.take() {
                assert!(body.as_mut().poll(&mut waker).is_ready());
            }
        });
    }
    let runtime = tokio::runtime::Handle::current();
    let thread = tokio::task::spawn_blocking(move || {
        locked(&mut || {
            if let Some(body) = body.take() {
                runtime.block_on(body);
            }
        })
    });
    thread.await.map_err(in_words)?
}

pub(crate) fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
