//! Bodies that cannot run in a task of their own.

use std::fmt::Display;
use std::rc::Rc;

use redlocked::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn holds_what_is_not_send(order: u64) -> Result<u64, LockError> {
    let count = Rc::new(order);
    std::future::ready(()).await;
    Ok(*count)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn is_given_what_is_not_send(order: u64, count: Rc<u64>) -> Result<u64, LockError> {
    Ok(order + *count)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn, guard = lock)]
async fn with_its_guard(order: u64) -> Result<u64, LockError> {
    let count = Rc::new(order);
    lock.lost().await;
    Ok(*count)
}

struct NotSend(#[allow(dead_code)] Rc<u64>);

impl From<LockError> for NotSend {
    fn from(_: LockError) -> Self {
        Self(Rc::new(1))
    }
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn fails_with_what_is_not_send(order: u64) -> Result<u64, NotSend> {
    Ok(order)
}

#[distributed_lock(key = "charge:{order}", once = "24h", spawn)]
async fn may_borrow<T: Display + Send>(order: T) -> Result<String, LockError> {
    Ok(order.to_string())
}

async fn by_hand(locks: &LockManager) -> Result<(), LockError> {
    let request = locks.lock("k").once(std::time::Duration::from_secs(60));
    let body = async move |_guard| {
        let count = Rc::new(1);
        std::future::ready(()).await;
        Ok::<u64, LockError>(*count)
    };
    request.run_spawned(body).await?;
    Ok(())
}

fn main() {
    let _ = by_hand;
}
