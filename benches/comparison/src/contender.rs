//! A contender: a way to run a body under a lock.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The code that runs under the lock.
pub type Body = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An error says why the caller did not get the lock.
pub type Outcome<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// One process of a fleet, with a connection of its own.
pub trait Client: Send + Sync {
    /// Waits for the lock in the contender's own way, up to `wait` (zero: one try), runs the body and releases the
    /// lock.
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_>;
}

pub type Clients = Vec<Arc<dyn Client>>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No lock that goes through a server can beat it.
    Limit,
    Ours,
    /// A lock from a classic article.
    Article,
    Peer,
}

/// The workloads that a contender takes part in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// One task, no waiters.
    Alone,
    /// One task without waiters, and the flash sale in one process.
    OneProcess,
    /// Many tasks, no waiters.
    Free,
    /// Up to 50 waiters for one lock.
    Some,
    /// Only where callers wait: elsewhere it would equal another contender.
    Waiting,
    Everything,
}

pub struct Contender {
    pub name: &'static str,
    pub kind: Kind,
    pub part: Part,
    pub clients: Clients,
}

pub const LIMIT: &str = "SET NX PX + compare-and-delete";
/// Its connection is driven by another thread than the caller's.
pub const LIMIT_APART: &str = "the same, its connection on a thread of its own";
pub const LIMIT_SYNC: &str = "the same, on a connection that blocks";
pub const PING: &str = "one PING";

pub const TTL: Duration = Duration::from_secs(30);

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
    thread.await.map_err(|error| error.to_string())?
}
