//! Writes that only the right holder can make, on real databases.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may panic"
)]

mod bank;
mod crossing;
#[cfg(unix)]
mod frozen;
mod guards;
mod stale;
mod tables;

/// A manager in memory that no other test shares.
async fn manager() -> redlocked::LockManager {
    redlocked::LockManager::connect(format!("memory://{}", kit::unique("fences"))).await.unwrap()
}
