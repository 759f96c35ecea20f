//! A service whose traces show how long a request waits for a lock, how long it holds it, and what
//! went wrong.
//!
//! ```text
//! cargo run -p redlocked-metrics-example --bin traces
//! ```
//!
//! It prints the spans. A real service sends them to a collector: `opentelemetry-otlp` in place of
//! `opentelemetry-stdout`, and `with_batch_exporter` in place of `with_simple_exporter`. On Redis
//! when `REDIS_URL` is set, else on `memory://`.

#![allow(clippy::print_stderr, reason = "a program that talks to its user")]

use std::error::Error;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use redlocked::{LockError, LockManager, distributed_lock};
use tokio::time::sleep;
use tracing::{info, instrument};
use tracing_subscriber::layer::SubscriberExt;

/// Its span has two children: `lock_wait`, and `lock_hold` with what the body calls and says.
#[distributed_lock(key = "stock:{sku}", ttl = "10s", wait = "150ms", manager = locks)]
#[instrument(skip(locks))]
async fn purchase(locks: &LockManager, sku: &str) -> Result<(), LockError> {
    sleep(Duration::from_millis(100)).await;
    info!("sold");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(word) = std::env::args().nth(1) {
        eprintln!("`{word}`: it takes no arguments, but REDIS_URL");
        std::process::exit(2);
    }
    let exporter = opentelemetry_stdout::SpanExporter::default();
    let traces = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
    let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("shop"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;

    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://traces".to_owned());
    let locks = LockManager::connect(&url).await?;
    // One of three customers is too late.
    let (first, second, third) =
        tokio::join!(purchase(&locks, "shoes"), purchase(&locks, "shoes"), purchase(&locks, "shoes"));
    for error in [first, second, third].into_iter().filter_map(Result::err) {
        eprintln!("{error}");
    }
    locks.shutdown(Duration::from_secs(5)).await?;
    // Sends what is left.
    traces.shutdown()?;
    Ok(())
}
