//! How long a lock is held, and whether a lost lock ends the body, in every shape of function.
#![deny(warnings)]

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use redlocked::{LockError, distributed_lock};

struct Cron {
    period: Duration,
}

impl Cron {
    #[distributed_lock(key = "a", max_hold = self.period * 2, min_hold = self.period - Duration::from_secs(1))]
    async fn expressions(&mut self) -> Result<(), LockError> {
        self.period *= 2;
        Ok(())
    }

    // A sync body cannot be cancelled at its limit: it asks its guard.
    #[distributed_lock(key = "a", max_hold = "1m", min_hold = "1m", reentrant, guard = lock)]
    fn blocking(&self) -> Result<bool, LockError> {
        Ok(lock.is_held())
    }
}

#[distributed_lock(key = "a", ttl = "10s", max_hold = "9s", min_hold = "5s")]
async fn shorter_than_the_lease() -> Result<(), LockError> {
    Ok(())
}

// With renewal, `min_hold` may be longer than the ttl.
#[distributed_lock(key = "a", ttl = "10s", min_hold = "5m")]
async fn kept_for_longer_than_the_lease() -> Result<(), LockError> {
    Ok(())
}

// Cannot be decided at compile time.
#[distributed_lock(key = "a", constant_key, ttl = ttl, renew = false, min_hold = "5m")]
async fn of_an_argument(ttl: Duration) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", constant_key, on_lost = "finish", reentrant = true)]
fn boxed_by_hand(n: u32) -> Pin<Box<dyn Future<Output = Result<u32, LockError>> + Send>> {
    Box::pin(async move { Ok(n) })
}

#[async_trait::async_trait]
trait Job {
    async fn run(&self) -> Result<(), LockError>;
}

#[async_trait::async_trait]
impl Job for Cron {
    #[distributed_lock(key = "a", on_lost = "finish", max_hold = "1h", reentrant)]
    async fn run(&self) -> Result<(), LockError> {
        Ok(())
    }
}

macro_rules! job {
    ($name:ident, $max:literal, $min:expr, $on_lost:literal, $reentrant:expr) => {
        #[distributed_lock(key = "a", max_hold = $max, min_hold = $min, on_lost = $on_lost, reentrant = $reentrant)]
        async fn $name() -> Result<(), LockError> {
            Ok(())
        }
    };
}

job!(in_a_macro, "1m", "30s", "finish", true);

fn require_send(_: impl Send) {}

#[test]
fn compiles() {
    let mut cron = Cron { period: Duration::from_secs(60) };
    let _ = Cron::blocking;
    require_send(cron.run());
    require_send(cron.expressions());
    require_send(shorter_than_the_lease());
    require_send(kept_for_longer_than_the_lease());
    require_send(of_an_argument(cron.period));
    require_send(boxed_by_hand(7));
    require_send(in_a_macro());
}
