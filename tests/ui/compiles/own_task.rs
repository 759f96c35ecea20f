//! `spawn`: bodies in a task of their own, which own what they use.
#![deny(warnings)]

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use redlocked::{LockError, LockManager, distributed_lock};

struct Shop {
    locks: LockManager,
    name: String,
}

impl Shop {
    #[distributed_lock(key = "charge:{order}", once = "24h", once_fingerprint = "{cents}", spawn, wait = "10s", manager = self.locks)]
    async fn shared(self: Arc<Self>, order: String, cents: u64) -> Result<String, LockError> {
        tokio::task::yield_now().await;
        Ok(format!("{} {order} {cents}", self.name))
    }

    #[distributed_lock(key = "charge:{order}", once = "24h", spawn, guard = lock, manager = self.locks)]
    async fn by_value(self, order: &'static str) -> Result<(u64, usize), LockError> {
        tokio::task::yield_now().await;
        Ok((lock.fencing_token(), order.len()))
    }

    #[distributed_lock(key = "charge:{order}", once = "24h", spawn, on_busy = Ok(None))]
    fn returns_a_future(order: u64) -> impl Future<Output = Result<Option<u64>, LockError>> + Send {
        async move { Ok(Some(order)) }
    }

    #[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
    fn returns_a_box(order: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
        Box::pin(async move { Ok(order) })
    }
}

#[derive(Debug)]
struct PayError;

impl From<LockError> for PayError {
    fn from(_: LockError) -> Self {
        Self
    }
}

type Paid<T> = Result<T, PayError>;

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn generic<T: Display + Clone + Send + 'static>(
    order: T,
    log: Box<dyn Fn(&str) + Send>,
) -> Paid<String> {
    log(&order.to_string());
    tokio::task::yield_now().await;
    Ok(order.to_string())
}

/// For macros.
#[distributed_lock(key = "charge:{order}", once = "24h", spawn = false)]
async fn off(order: &str) -> Paid<usize> {
    let not_send = Rc::new(order.len());
    tokio::task::yield_now().await;
    Ok(*not_send)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn, on_error = |_| Ok(0))]
async fn with_a_handler(order: u64) -> Result<u64, String> {
    if order == 0 {
        return Err("no order".to_owned());
    }
    Ok(order)
}

fn is_send<T: Send + 'static>(_: impl Future<Output = T> + Send + 'static) {}

/// A body by hand: a closure of either form, and a handler of a framework whose futures are not `Send`.
async fn by_hand(locks: &LockManager, order: String) -> Result<(String, u64, u64), LockError> {
    let not_send = Rc::new(1);
    let once = || locks.lock("k").once(std::time::Duration::from_secs(60));
    let text = once().run_spawned(async move |_guard| Ok::<_, LockError>(order)).await?.into_inner();
    let token = once().run_spawned(|guard| async move { Ok::<_, LockError>(guard.fencing_token()) }).await?;
    let waited = async move |guard: Arc<redlocked::LockGuard>| {
        guard.lost().await;
        Ok::<_, LockError>(7)
    };
    let number = once().run_spawned(waited).await?.into_inner();
    drop(not_send);
    Ok((text, token.into_inner(), number))
}

#[test]
fn compiles() {
    is_send(generic(7, Box::new(|_| ())));
    is_send(with_a_handler(7));
    is_send(Shop::returns_a_future(7));
    is_send(Shop::returns_a_box(7));
    drop(off("a"));
    let spawned = |shop: Arc<Shop>| is_send(shop.shared("a".to_owned(), 1));
    let by_value = |shop: Shop| is_send(shop.by_value("a"));
    let by_hand = |locks: LockManager| drop(by_hand(&locks, "a".to_owned()));
    let _ = (spawned, by_value, by_hand);
}
