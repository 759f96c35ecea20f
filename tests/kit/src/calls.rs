//! The start of most tests: a manager, a runtime of one thread, and calls that are dropped in the
//! middle.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use redlocked::election::{Leader, Observer};
use redlocked::{LockError, LockErrorKind, LockManager};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::{Proxy, RedisServer, SECOND, eventually};

/// A manager of its own, as another process would have. On a busy machine a server may take more than the
/// second that a manager gives it by default.
#[track_caller]
pub fn connect(server: &RedisServer) -> LockManager {
    connect_to(&server.url())
}

/// [`connect`] to what has this address.
#[track_caller]
pub fn connect_to(url: &str) -> LockManager {
    LockManager::builder(url).io_timeout(4 * SECOND).connect_blocking().unwrap()
}

/// A runtime on the thread of the test.
#[track_caller]
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Drops a call after the server has executed its request, and before its reply arrives. Returns
/// when everything that it took is released, while the reply is still held back: the release
/// follows on the same connection.
#[track_caller]
pub fn dropped_before_its_reply<T: Debug>(
    proxy: &Proxy,
    server: &RedisServer,
    keys: usize,
    call: impl Future<Output = T>,
) {
    proxy.hold_replies(true);
    runtime().block_on(async {
        let mut call = pin!(call);
        let executed = async {
            while server.keys().len() < keys {
                sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            outcome = &mut call => panic!("the reply is held back: {outcome:?}"),
            () = executed => {}
        }
    });
    eventually("no key is left", || server.keys().is_empty());
    proxy.hold_replies(false);
}

/// The output of a call that is polled at most so many times, and then dropped. `eager`: polled
/// again although nothing has woken it, so that it is dropped while its requests are on their way.
pub async fn polled<T>(call: impl Future<Output = T>, mut polls: u32, eager: bool) -> Option<T> {
    let mut call = pin!(call);
    poll_fn(|cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        if eager {
            cx.waker().wake_by_ref();
        }
        call.as_mut().poll(cx).map(Some)
    })
    .await
}

/// The keys of the held locks that match `pattern`.
pub fn listed(locks: &LockManager, pattern: &str) -> Result<Vec<String>, LockError> {
    Ok(locks.list_blocking(pattern)?.iter().map(|lock| lock.key().to_owned()).collect())
}

/// What a ping says is wrong, if anything. It says so soon after the `io_timeout` of the manager.
#[track_caller]
pub fn trouble(locks: &LockManager, io_timeout: Duration) -> Option<LockErrorKind> {
    let start = Instant::now();
    let outcome = locks.ping_blocking();
    assert!(start.elapsed() < io_timeout + 2 * SECOND, "{:?}: {outcome:?}", start.elapsed());
    outcome.err().map(|error| error.kind())
}

/// The next change that an observer sees: who leads then.
pub async fn next_leader(observer: &mut Observer) -> Result<Option<Leader>, LockError> {
    observer.changed().await?;
    Ok(observer.leader().cloned())
}
