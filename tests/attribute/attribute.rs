//! End to end: an annotated function, the engine, a real Redis server, and another client on the
//! same key.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::time::{Duration, Instant};

use kit::{RedisServer, eventually};
use redlocked::{LockError, LockManager, distributed_lock};

#[derive(Debug)]
enum ShopError {
    SoldOut,
    Lock(LockError),
}

impl From<LockError> for ShopError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

struct Shop {
    locks: LockManager,
    server: RedisServer,
}

impl Shop {
    fn open() -> Self {
        let server = RedisServer::start();
        Self { locks: LockManager::connect_blocking(server.url()).unwrap(), server }
    }

    /// Returns the value of the lock's key while the body runs.
    #[distributed_lock(key = "stock:{sku}", ttl = "10s", wait = "500ms", manager = self.locks)]
    async fn purchase(&self, sku: &str, quantity: u32) -> Result<Option<String>, ShopError> {
        match quantity {
            0 => return Err(ShopError::SoldOut),
            1 => Err(ShopError::SoldOut)?,
            13 => panic!("on purpose"),
            _ => {}
        }
        let taken: Option<String> = self.server.run(&format!("SET lock:stock:{sku} x NX PX 60000"));
        assert_eq!(taken, None, "another client is refused while we hold it");
        Ok(self.server.run(&format!("GET lock:stock:{sku}")))
    }

    #[distributed_lock(key = "stock:{sku}", wait = "500ms", manager = self.locks)]
    fn count(&self, sku: &str) -> Result<Option<String>, ShopError> {
        Ok(self.server.run(&format!("GET lock:stock:{sku}")))
    }

    #[distributed_lock(key = "cron", manager = self.locks, on_busy = "skipped", on_error = |_| "failed")]
    fn nightly(&self) -> &'static str {
        "ran"
    }
}

#[tokio::test]
async fn the_key_shows_who_holds_it_and_is_gone_afterwards() {
    let shop = Shop::open();
    let me = format!(":{}/", std::process::id());
    let values = [(shop.purchase("42", 7).await.unwrap(), "purchase"), (shop.count("42").unwrap(), "count")];
    for (value, function) in values {
        let value = value.unwrap();
        assert!(value.contains(&me) && value.ends_with(&format!("/attribute::attribute::{function}")));
    }
    assert!(shop.server.keys().is_empty(), "released when the call returns, not some time later");
}

#[tokio::test]
async fn another_client_on_the_key_makes_the_call_time_out() {
    let shop = Shop::open();
    let _: String = shop.server.run("SET lock:stock:42 x NX PX 60000");
    let start = Instant::now();
    let outcome = shop.purchase("42", 7).await;
    assert!(start.elapsed() >= Duration::from_millis(500));
    let Err(ShopError::Lock(error @ LockError::TimedOut { .. })) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains("`stock:42`"), "{error}");
    let outcome = shop.count("42");
    assert!(matches!(outcome, Err(ShopError::Lock(LockError::TimedOut { .. }))), "{outcome:?}");
}

#[tokio::test]
async fn every_way_out_of_the_body_releases() {
    let shop = Shop::open();
    assert!(matches!(shop.purchase("42", 0).await, Err(ShopError::SoldOut)), "return");
    assert!(shop.server.keys().is_empty());
    assert!(matches!(shop.purchase("42", 1).await, Err(ShopError::SoldOut)), "?");
    assert!(shop.server.keys().is_empty());
    let shop = std::sync::Arc::new(shop);
    let call = std::sync::Arc::clone(&shop);
    let panicked = tokio::spawn(async move { call.purchase("42", 13).await.map(drop) }).await;
    assert!(panicked.is_err_and(|error| error.is_panic()));
    eventually("a panic releases too", || shop.server.keys().is_empty());
}

#[test]
fn on_busy_is_for_busy_and_on_error_for_the_rest() {
    let mut shop = Shop::open();
    assert_eq!(shop.nightly(), "ran");
    let _: String = shop.server.run("SET lock:cron x PX 60000");
    assert_eq!(shop.nightly(), "skipped");
    shop.server.kill();
    assert_eq!(shop.nightly(), "failed");
}

#[tokio::test]
async fn a_value_cannot_reach_another_key() {
    let shop = Shop::open();
    let _other_key = shop.locks.lock("stock:a%3Ab").acquire().await.unwrap();
    let outcome = shop.purchase("a:b", 7).await;
    assert!(matches!(outcome, Err(ShopError::Lock(LockError::TimedOut { .. }))), "{outcome:?}");
    drop(shop.locks.lock("stock:a:b").acquire().await.unwrap());
}
