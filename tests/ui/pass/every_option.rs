use std::time::Duration;

use redlocked::{LockError, LockGuard, LockManager, distributed_lock};

struct Config {
    ttl: Duration,
    locks: LockManager,
}

#[distributed_lock(
    key = "report:{name}",
    ttl = config.ttl,
    wait = Duration::from_secs(2) + config.ttl,
    renew = true,
    max_hold = config.ttl * 100,
    min_hold = Duration::from_secs(1),
    on_lost = "cancel",
    reentrant = false,
    guard = lock,
    manager = config.locks,
    on_busy = 0,
    on_error = |_| 1,
    crate = ::redlocked,
)]
async fn report(config: &Config, name: &str) -> u32 {
    let lock: &LockGuard = lock;
    u32::try_from(lock.key().len() + name.len()).unwrap_or(0)
}

#[distributed_lock(key = "a", ttl = "1d 2h 3m 4s 5ms", wait = "forever", renew = false)]
fn literals() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", ttl = "10s", max_hold = "1h", min_hold = "5m", on_lost = "finish", reentrant)]
async fn holding() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", wait = "0s", on_error = ignore::<LockError>)]
fn a_path_as_the_handler() {}

fn ignore<T>(_: T) {}

#[distributed_lock(key = "a",)]
fn a_trailing_comma() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _ = (literals, a_path_as_the_handler, a_trailing_comma, holding, report);
}
