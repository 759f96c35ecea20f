//! At most three mails at once to one host, from the whole fleet, whoever of it crashes.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlocked::{LockError, LockManager, distributed_lock};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What the host allows.
const AT_ONCE: u32 = 3;

static SENDING: AtomicU32 = AtomicU32::new(0);

#[distributed_lock(key = "smtp:{host}", permits = AT_ONCE, ttl = "10s", wait = "30s")]
async fn send(host: &str, mail: u32) -> Result<(), LockError> {
    let sending = SENDING.fetch_add(1, Ordering::SeqCst) + 1;
    println!("mail {mail} goes to {host}, {sending} at once");
    assert!(sending <= AT_ONCE, "the host would refuse it");
    sleep(Duration::from_millis(200)).await;
    SENDING.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    kit::no_arguments();
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    let locks = LockManager::builder(url).prefix("mail-example:").connect().await?;
    locks.clone().set_global();

    let mut mails = JoinSet::new();
    for mail in 1..=10 {
        mails.spawn(send("mx.example.org", mail));
    }
    while let Some(sent) = mails.join_next().await {
        sent??;
    }
    locks.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
