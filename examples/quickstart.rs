//! An async fn and a sync method, each with one caller at a time in the whole fleet.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`, which is this process alone.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::time::Duration;

use redlocked::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "stock:{sku}", ttl = "10s", wait = "5s")]
async fn purchase(sku: &str, customer: &str) -> Result<(), LockError> {
    println!("{customer} is buying {sku} …");
    tokio::time::sleep(Duration::from_millis(300)).await;
    println!("{customer} has bought {sku}");
    Ok(())
}

struct Invoices {
    tenant: String,
}

impl Invoices {
    #[distributed_lock(key = "invoices:{self.tenant}", ttl = "10s", wait = "5s")]
    fn issue(&self, order: u32) -> Result<String, LockError> {
        Ok(format!("{}-{order:04}", self.tenant))
    }
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    kit::no_arguments();
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://".to_owned());
    // The prefix keeps the keys of this program apart from those of others on the same server.
    let locks = LockManager::builder(url).prefix("quickstart:").connect().await?;
    locks.set_global();

    // The two calls for shoes run one after the other though they start together; the call for
    // boots does not wait.
    tokio::try_join!(purchase("shoes", "Ann"), purchase("shoes", "Bob"), purchase("boots", "Cleo"))?;

    let invoices = Invoices { tenant: "acme".to_owned() };
    println!("invoice {}", invoices.issue(7)?);

    // At the end of `main`: releases the locks that are still held, before the process ends.
    locks.shutdown(Duration::from_secs(5)).await
}
