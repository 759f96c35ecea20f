//! The attribute's `once`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kit::{SECOND, runtime, unique};
use redlocked::{LockError, LockManager, distributed_lock};
use serde::{Deserialize, Serialize};

use crate::until;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    cents: u64,
    run: u32,
}

#[derive(Debug)]
enum PayError {
    Lock(LockError),
    Refused,
}

impl From<LockError> for PayError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

struct Shop {
    locks: LockManager,
    runs: AtomicU32,
}

impl Shop {
    async fn open() -> Self {
        let locks = LockManager::connect(format!("memory://{}", unique("shop"))).await.unwrap();
        Self { locks, runs: AtomicU32::new(0) }
    }

    fn run(&self) -> u32 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    #[distributed_lock(key = "charge:{order}", once = "24h", once_fingerprint = "{cents}", wait = "30s", manager = self.locks)]
    async fn charge(&self, order: u64, cents: u64) -> Result<Receipt, PayError> {
        if cents == 0 {
            return Err(PayError::Refused);
        }
        Ok(Receipt { cents, run: self.run() })
    }

    #[distributed_lock(key = "g:{order}", once = Duration::from_secs(60), guard = lock, manager = self.locks)]
    async fn guarded(&self, order: &str) -> Result<(String, u64), LockError> {
        self.run();
        Ok((order.to_owned(), lock.fencing_token()))
    }

    #[distributed_lock(key = "s:{order}", once = "1m", on_interrupted = "error", manager = self.locks)]
    fn blocking(&self, order: u64) -> Result<u64, LockError> {
        self.run();
        assert!(order < 100, "an accident");
        Ok(order)
    }

    #[distributed_lock(
        key = "b:{order}",
        once = "1m",
        once_fingerprint = format!("{order:?}"),
        on_busy = Ok(None),
        manager = self.locks
    )]
    async fn skips(&self, order: u64) -> Result<Option<u64>, LockError> {
        tokio::time::sleep(SECOND / 5).await;
        Ok(Some(order))
    }

    #[distributed_lock(key = "v:{order}", once = "1m", on_undecodable = "rerun", manager = self.locks)]
    async fn text(&self, order: u64) -> Result<String, LockError> {
        Ok(format!("text {order}"))
    }

    #[distributed_lock(key = "v:{order}", once = "1m", on_undecodable = "rerun", manager = self.locks)]
    async fn number(&self, order: u64) -> Result<u64, LockError> {
        Ok(order)
    }
}

#[test]
fn a_method_runs_once_for_its_key_and_its_request() {
    runtime().block_on(async {
        let shop = Shop::open().await;
        assert!(matches!(shop.charge(7, 0).await, Err(PayError::Refused)), "it is not stored");
        for _ in 0..2 {
            assert_eq!(shop.charge(7, 500).await.unwrap(), Receipt { cents: 500, run: 0 });
        }
        assert_eq!(shop.charge(8, 500).await.unwrap().run, 1);
        let reused = shop.charge(7, 900).await;
        assert!(matches!(reused, Err(PayError::Lock(LockError::KeyReused { .. }))), "{reused:?}");
    });
}

#[test]
fn a_body_that_sees_its_guard_runs_once() {
    runtime().block_on(async {
        let shop = Shop::open().await;
        let first = shop.guarded("a").await.unwrap();
        assert!(first.1 > 0);
        assert_eq!(shop.guarded("a").await.unwrap(), first);
        assert_eq!(shop.runs.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_sync_function_runs_once_and_its_panic_is_an_interruption() {
    let shop = runtime().block_on(Shop::open());
    assert_eq!((shop.blocking(7).unwrap(), shop.blocking(7).unwrap()), (7, 7));
    assert_eq!(shop.runs.load(Ordering::Relaxed), 1);
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shop.blocking(100)));
    assert!(panics.is_err());
    runtime()
        .block_on(until("its lock is free", async || shop.locks.inspect("s:100").await.unwrap().is_none()));
    assert!(matches!(shop.blocking(100), Err(LockError::Interrupted { .. })));
}

#[test]
fn a_call_beside_the_one_that_runs_may_skip() {
    runtime().block_on(async {
        let shop = Shop::open().await;
        let shop = Arc::new(shop);
        let calls = [(); 2].map(|()| {
            tokio::spawn({
                let shop = Arc::clone(&shop);
                async move { shop.skips(7).await }
            })
        });
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.unwrap().unwrap());
        }
        results.sort_unstable();
        assert_eq!(results, [None, Some(7)]);
        assert_eq!(shop.skips(7).await.unwrap(), Some(7), "now it is the result");
    });
}

#[test]
fn a_result_of_an_older_type_is_replaced_where_that_is_asked_for() {
    runtime().block_on(async {
        let shop = Shop::open().await;
        assert_eq!(shop.text(7).await.unwrap(), "text 7");
        assert_eq!((shop.number(7).await.unwrap(), shop.number(7).await.unwrap()), (7, 7));
    });
}
