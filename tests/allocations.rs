//! How often a call of an annotated function allocates without contention: on the caller's thread,
//! and on the engine's. A binary of its own, because it replaces the allocator; one test, because
//! it counts all threads.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::System;
use std::sync::atomic::{AtomicU32, Ordering};

use kit::RedisServer;
use redlocked::{LockError, LockManager, distributed_lock};
use tracking_allocator::{
    AllocationGroupId, AllocationGroupToken, AllocationRegistry, AllocationTracker, Allocator,
};

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

/// Allocations of the calling thread.
static CALLER: AtomicU32 = AtomicU32::new(0);

/// Allocations of all other threads: only the engine's is active.
static ENGINE: AtomicU32 = AtomicU32::new(0);

struct Count;

impl AllocationTracker for Count {
    fn allocated(&self, _: usize, _: usize, _: usize, group: AllocationGroupId) {
        let side = if group == AllocationGroupId::ROOT { &ENGINE } else { &CALLER };
        side.fetch_add(1, Ordering::Relaxed);
    }

    fn deallocated(&self, _: usize, _: usize, _: usize, _: AllocationGroupId, _: AllocationGroupId) {}
}

#[distributed_lock(key = "stock:{sku}", ttl = "10s", wait = "5s", manager = locks)]
async fn purchase(locks: &LockManager, sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

const CALLS: u32 = 500;

/// The allocations of [`CALLS`] calls: the caller's, and the engine's.
async fn count(url: &str) -> (u32, u32) {
    // On the runtime of the caller, the two could not be told apart.
    let locks = LockManager::builder(url).own_thread(true).connect().await.unwrap();
    for _ in 0..20 {
        assert_eq!(purchase(&locks, "shoes").await, Ok(5), "these calls make what is made once");
    }
    let mut caller = AllocationGroupToken::register().unwrap();
    AllocationRegistry::enable_tracking();
    let entered = caller.enter();
    for _ in 0..CALLS {
        assert_eq!(purchase(&locks, "shoes").await, Ok(5));
    }
    drop(entered);
    AllocationRegistry::disable_tracking();
    (CALLER.swap(0, Ordering::Relaxed), ENGINE.swap(0, Ordering::Relaxed))
}

/// Fails above `each` allocations a call, with some room for rare ones, such as a timer on a slow
/// machine.
#[track_caller]
fn at_most(each: u32, counted: u32, who: &str) {
    assert!(counted <= each * CALLS + CALLS / 10, "{who}: {counted} allocations in {CALLS} calls");
}

#[tokio::test]
async fn a_call_allocates_its_key_its_token_and_its_answers() {
    AllocationRegistry::set_global_tracker(Count).unwrap();
    let server = RedisServer::start();
    let (caller, engine) = count(&server.url()).await;
    // Three for the key: rendered, and shared without its prefix and with it. One for the token,
    // one for the request, and two for the answers to the acquire and the release. A body that
    // waits for something has one more, for the end of the lease, which stops it.
    at_most(3 + 1 + 1 + 2, caller, "caller");
    // Two for each of the two requests: the batch and its replies. Four for what the engine knows
    // of the lock: its waiter, its holder, the lease and the release.
    at_most(8, engine, "engine");

    let (caller, engine) = count("memory://allocations").await;
    at_most(3 + 1 + 1 + 2, caller, "caller, without a server");
    at_most(10, engine, "engine, without a server");
}
