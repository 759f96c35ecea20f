//! The shapes of calls: what is called, and where. Each runs in a process of its own, and ends it.

use std::future::Future;
use std::mem::forget;
use std::pin::Pin;
use std::sync::LazyLock;
use std::time::Duration;

use redlocked::{
    LockError, LockGuard, LockKey, LockManager, LockManagerBuilder, LockRequest, distributed_lock,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot::channel;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::End;

const TTL: Duration = Duration::from_secs(60);

/// The end of the key that another caller holds. It is left.
pub(crate) const OTHER: &str = ":other";

/// What a child does.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) urls: Vec<String>,
    /// Its keys begin with it.
    pub(crate) name: String,
    pub(crate) end: End,
}

type Ends<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
type AsyncWork = for<'a> fn(&'a LockManager, &'a Call) -> Ends<'a>;
type SyncWork = fn(&LockManager, &Call);

/// What is called in an async function.
pub(crate) const ASYNC_WORKS: [(&str, AsyncWork); 17] = [
    ("attribute", |locks, call| Box::pin(async { attribute(locks, &call.name).await.unwrap() })),
    ("attribute_shared", |locks, call| {
        Box::pin(async { attribute_shared(locks, &call.name).await.unwrap() })
    }),
    ("attribute_fenced", |locks, call| {
        Box::pin(async { assert!(attribute_fenced(locks, &call.name).await.unwrap() > 0) })
    }),
    ("by_hand", |locks, call| {
        Box::pin(async {
            one(locks, call).release_in_background(true).run_value(async |_| ()).await.unwrap();
        })
    }),
    ("several_by_hand", |locks, call| {
        Box::pin(async {
            several(locks, call).release_in_background(true).run_value(async |_| ()).await.unwrap();
        })
    }),
    ("dropped", |locks, call| Box::pin(async { drop(one(locks, call).acquire().await.unwrap()) })),
    ("several_dropped", |locks, call| {
        Box::pin(async { drop(several(locks, call).acquire().await.unwrap()) })
    }),
    ("mixed_by_hand", |locks, call| {
        Box::pin(async {
            mixed(locks, call).release_in_background(true).run_value(async |_| ()).await.unwrap();
        })
    }),
    ("mixed_dropped", |locks, call| Box::pin(async { drop(mixed(locks, call).acquire().await.unwrap()) })),
    ("reader_dropped", |locks, call| {
        Box::pin(async { drop(one(locks, call).shared().acquire().await.unwrap()) })
    }),
    ("permit_dropped", |locks, call| {
        Box::pin(async { drop(one(locks, call).permits(3).acquire().await.unwrap()) })
    }),
    // Whether the server has it as a shared lock is not known when the process ends.
    ("downgrade_dropped", |locks, call| {
        Box::pin(async {
            let guard = one(locks, call).acquire().await.unwrap();
            let mut downgrade = Box::pin(guard.downgrade());
            let polled =
                std::future::poll_fn(|cx| std::task::Poll::Ready(downgrade.as_mut().poll(cx).is_ready()));
            let _ = polled.await;
            drop(downgrade);
            drop(guard);
        })
    }),
    ("many_dropped_then_shutdown", |locks, call| {
        Box::pin(async {
            drop(readers(locks, call, 500).await);
            locks.shutdown(TTL).await.unwrap();
        })
    }),
    ("given_up", |locks, call| {
        Box::pin(async {
            let other = connect(call).await;
            forget(other.lock(call.key("z") + OTHER).ttl(TTL).acquire().await.unwrap());
            let keys = [call.key("a"), call.key("b"), call.key("z") + OTHER];
            assert!(locks.lock_all(keys).ttl(TTL).acquire().await.unwrap_err().is_busy());
        })
    }),
    // Nobody has told its process of the waiter when it ends.
    ("waited_for", |locks, call| {
        Box::pin(async {
            let guard = one(locks, call).acquire().await.unwrap();
            waits(one(&connect(call).await, call)).await;
            drop(guard);
        })
    }),
    ("waited_for_by_a_reader", |locks, call| {
        Box::pin(async {
            let guard = one(locks, call).acquire().await.unwrap();
            waits(one(&connect(call).await, call).shared()).await;
            drop(guard);
        })
    }),
    ("cancelled", |locks, call| {
        Box::pin(async {
            let (enters, entered) = channel();
            let body = async |_: &LockGuard| {
                let _ = enters.send(());
                std::future::pending::<()>().await;
            };
            tokio::select! {
                _ = one(locks, call).run_value(body) => {}
                inside = entered => inside.unwrap(),
            }
        })
    }),
];

/// What is called in a sync function.
pub(crate) const SYNC_WORKS: [(&str, SyncWork); 8] = [
    ("attribute", |locks, call| attribute_sync(locks, &call.name).unwrap()),
    ("by_hand", |locks, call| {
        one(locks, call).release_in_background(true).run_value_blocking(|_| ()).unwrap();
    }),
    ("several_by_hand", |locks, call| {
        several(locks, call).release_in_background(true).run_value_blocking(|_| ()).unwrap();
    }),
    ("dropped", |locks, call| drop(one(locks, call).acquire_blocking().unwrap())),
    ("several_dropped", |locks, call| drop(several(locks, call).acquire_blocking().unwrap())),
    ("mixed_dropped", |locks, call| drop(mixed(locks, call).acquire_blocking().unwrap())),
    ("reader_dropped", |locks, call| drop(one(locks, call).shared().acquire_blocking().unwrap())),
    ("downgraded_dropped", |locks, call| {
        let guard = one(locks, call).acquire_blocking().unwrap();
        guard.downgrade_blocking().unwrap();
    }),
];

type AsyncPlace = fn(AsyncWork, Call);
type SyncPlace = fn(SyncWork, &Call);

/// Where an async function is called.
pub(crate) const ASYNC_PLACES: [(&str, AsyncPlace); 7] = [
    ("multi", |work, call| multi().block_on(works(connect(&call), work, &call))),
    ("current", |work, call| current().block_on(works(connect(&call), work, &call))),
    // Nobody drops it.
    ("static", |work, call| MULTI.block_on(works(connect(&call), work, &call))),
    // Nobody polls the loop after the call.
    ("static_current", |work, call| CURRENT.block_on(works(connect(&call), work, &call))),
    ("spawned", |work, call| {
        let task = async move { works(connect(&call), work, &call).await };
        multi().block_on(async { tokio::spawn(task).await.unwrap() });
    }),
    ("own_thread", |work, call| {
        multi().block_on(works(
            async { builder(&call).own_thread(true).connect().await.unwrap() },
            work,
            &call,
        ));
    }),
    ("behind_another_runtime", |work, call| {
        let locks = current().block_on(connect(&call));
        multi().block_on(works(async { locks }, work, &call));
    }),
];

/// Where a sync function is called.
pub(crate) const SYNC_PLACES: [(&str, SyncPlace); 9] = [
    ("no_runtime", |work, call| works_blocking(&builder(call).connect_blocking().unwrap(), work, call)),
    ("no_runtime_own_thread", |work, call| {
        works_blocking(&builder(call).own_thread(true).connect_blocking().unwrap(), work, call);
    }),
    ("in_current", |work, call| {
        current().block_on(async { works_blocking(&connect(call).await, work, call) });
    }),
    ("in_multi", |work, call| multi().block_on(async { works_blocking(&connect(call).await, work, call) })),
    ("in_task", |work, call| {
        let call = call.clone();
        let task = async move { works_blocking(&connect(&call).await, work, &call) };
        multi().block_on(async { tokio::spawn(task).await.unwrap() });
    }),
    ("blocking_thread_of_current", |work, call| current().block_on(on_a_blocking_thread(work, call))),
    ("blocking_thread_of_multi", |work, call| multi().block_on(on_a_blocking_thread(work, call))),
    // The loop is in a runtime that nobody drops, or polls.
    ("beside_static", |work, call| {
        let locks = MULTI.block_on(async {
            let locks = connect(call).await;
            locks.lock(call.key("warm")).ttl(TTL).run_value(async |_| ()).await.unwrap();
            locks
        });
        works_blocking(&locks, work, call);
    }),
    ("beside_static_current", |work, call| {
        let locks = CURRENT.block_on(async {
            let locks = connect(call).await;
            locks.lock(call.key("warm")).ttl(TTL).run_value(async |_| ()).await.unwrap();
            locks
        });
        works_blocking(&locks, work, call);
    }),
];

async fn works(locks: impl Future<Output = LockManager>, work: AsyncWork, call: &Call) {
    let locks = locks.await;
    work(&locks, call).await;
    call.end.comes();
}

fn works_blocking(locks: &LockManager, work: SyncWork, call: &Call) {
    work(locks, call);
    call.end.comes();
}

async fn on_a_blocking_thread(work: SyncWork, call: &Call) {
    let (locks, call) = (connect(call).await, call.clone());
    spawn_blocking(move || works_blocking(&locks, work, &call)).await.unwrap();
}

#[distributed_lock(key = "{name}:k", ttl = TTL, release_in_background, manager = locks)]
async fn attribute(locks: &LockManager, name: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "{name}:k", ttl = TTL, release_in_background, shared, manager = locks)]
async fn attribute_shared(locks: &LockManager, name: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "{name}:k", ttl = TTL, guard = guard, release_in_background, manager = locks)]
async fn attribute_fenced(locks: &LockManager, name: &str) -> Result<u64, LockError> {
    Ok(guard.fencing_token())
}

#[distributed_lock(key = "{name}:k", ttl = TTL, release_in_background, manager = locks)]
fn attribute_sync(locks: &LockManager, name: &str) -> Result<(), LockError> {
    Ok(())
}

static MULTI: LazyLock<Runtime> = LazyLock::new(multi);
static CURRENT: LazyLock<Runtime> = LazyLock::new(current);

fn multi() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn builder(call: &Call) -> LockManagerBuilder {
    let (first, others) = call.urls.split_first().unwrap();
    others.iter().fold(LockManager::builder(first), LockManagerBuilder::node)
}

async fn connect(call: &Call) -> LockManager {
    builder(call).connect().await.unwrap()
}

impl Call {
    fn key(&self, key: &str) -> String {
        format!("{}:{key}", self.name)
    }
}

fn one(locks: &LockManager, call: &Call) -> LockRequest {
    locks.lock(call.key("k")).ttl(TTL)
}

/// Another caller has its place in the queue, most likely. Its process ends, too: if it is granted the lock before that, its
/// ttl is over before anybody looks at what is left.
async fn waits(request: LockRequest) {
    let request = request.ttl(Duration::from_millis(500)).wait(TTL);
    drop(tokio::spawn(async { request.acquire().await.map(forget) }));
    sleep(Duration::from_millis(20)).await;
}

async fn readers(locks: &LockManager, call: &Call, count: usize) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for number in 0..count {
        let key = call.key(&(number % 10).to_string());
        guards.push(locks.lock(key).ttl(TTL).shared().acquire().await.unwrap());
    }
    guards
}

fn several(locks: &LockManager, call: &Call) -> LockRequest {
    locks.lock_all(["a", "b", "c"].map(|key| call.key(key))).ttl(TTL)
}

/// Keys of each kind.
fn mixed(locks: &LockManager, call: &Call) -> LockRequest {
    let shared = LockKey::shared(call.key("b"));
    let permits = LockKey::permits(call.key("c"), 3).take(2);
    locks.lock_all([LockKey::exclusive(call.key("a")), shared, permits]).ttl(TTL)
}
