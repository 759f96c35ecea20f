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

#[distributed_lock(key = "a", release_in_background, min_hold = "1s")]
async fn released_in_background() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", release_in_background = false)]
fn awaited() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", shared, min_hold = "1s")]
async fn shared() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", shared = false, permits = 5)]
fn permits() -> Result<(), LockError> {
    Ok(())
}

struct Tenant {
    id: u64,
    limit: u32,
}

#[distributed_lock(key = "a", permits = 5, take = 2)]
fn take() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "tenant:{tenant.id}", take = { tenant.limit / 2 }, permits = { tenant.limit })]
async fn take_of_an_expression(tenant: &Tenant) -> Result<(), LockError> {
    let _ = tenant;
    Ok(())
}

#[distributed_lock(key = "tenant:{tenant.id}", permits = { tenant.limit }, wait = "30s")]
async fn permits_of_an_expression(tenant: &Tenant) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", rate = "5/1m", wait = "30s")]
async fn rate() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "tenant:{tenant.id}", rate = (tenant.limit, Duration::from_secs(60)), on_busy = Ok(0))]
fn rate_of_an_expression(tenant: &Tenant) -> Result<u64, LockError> {
    Ok(tenant.id)
}

#[distributed_lock(key = "a", rate = { let per = config.ttl; (5, per) }, manager = config.locks)]
async fn rate_of_a_block(config: &Config) -> Result<(), LockError> {
    let _ = config;
    Ok(())
}

#[distributed_lock(key = "a", tick = "1h", wait = "forever", on_busy = Ok(()))]
async fn tick() -> Result<(), LockError> {
    Ok(())
}

/// The time is for its tick alone, so the key need not name it.
#[distributed_lock(key = "a", tick_at = fire_time, tick_missed = "retry", guard = lock)]
fn tick_of_a_scheduler(fire_time: std::time::SystemTime) -> Result<bool, LockError> {
    Ok(lock.tick() == Some(fire_time))
}

struct FireTime(std::time::SystemTime);

impl From<FireTime> for std::time::SystemTime {
    fn from(fire_time: FireTime) -> Self {
        fire_time.0
    }
}

/// The time of another crate, and a value that is no `Result`.
#[distributed_lock(key = "a", constant_key, tick_at = FireTime(at), tick_missed = "retry", on_busy = None, on_error = |_| None)]
async fn tick_of_another_type<T: Send>(at: std::time::SystemTime, value: T) -> Option<T> {
    Some(value)
}

#[distributed_lock(key = "a:{id}", tick = config.ttl, tick_missed = "skip", manager = config.locks)]
async fn tick_of_an_expression(config: &Config, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "a", tick = "1h", tick_missed = "retry", on_error = |_| panic!())]
async fn tick_that_never_ends() -> ! {
    std::future::pending().await
}

#[distributed_lock(key = "a", wait = "0s", on_error = ignore::<LockError>)]
fn a_path_as_the_handler() {}

fn ignore<T>(_: T) {}

#[distributed_lock(key = "a")]
fn a_trailing_comma() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "prices", constant_key)]
async fn one_for_all(prices: &[u32]) -> Result<usize, LockError> {
    Ok(prices.len())
}

#[distributed_lock(key = "price:{id}", constant_key = false)]
fn one_each(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

// The key names no argument, and the function returns no value.
#[distributed_lock(key = "prices")]
fn no_argument_that_is_used(_: u32, _id: u32) -> Result<(), LockError> {
    Ok(())
}

const fn key_of(_: u32) -> &'static str {
    "prices"
}

#[distributed_lock(key = key_of(id))]
fn of_an_expression(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[test]
fn compiles() {
    let _ = (one_for_all, one_each, no_argument_that_is_used, of_an_expression);
    let _ = (released_in_background, awaited);
    let _ = (shared, permits, permits_of_an_expression, take, take_of_an_expression);
    let _ = (rate, rate_of_an_expression, rate_of_a_block);
    let _ =
        (tick, tick_of_a_scheduler, tick_of_another_type::<u32>, tick_of_an_expression, tick_that_never_ends);
    let _ = (literals, a_path_as_the_handler, a_trailing_comma, holding, report);
}
