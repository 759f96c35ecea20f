//! A service whose locks a Prometheus server can scrape.
//!
//! ```text
//! cargo run -p redlocked-metrics-example
//! curl http://127.0.0.1:9464/metrics
//! ```
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`; at another address when `METRICS_ADDRESS`
//! is set. The dashboard in `docs/dashboard.json` shows these metrics in Grafana.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::error::Error;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use redlocked::{LockError, LockManager, distributed_lock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The upper bounds of the histograms' buckets, for waits and holds from a millisecond to a minute.
/// Without them the exporter makes summaries, which cannot be added up over processes.
const SECONDS: [f64; 13] = [0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The label `lock` is `stock:{sku}`, for every `sku`.
#[distributed_lock(key = "stock:{sku}", ttl = "10s", wait = "150ms", manager = locks)]
async fn purchase(locks: &LockManager, sku: &str) -> Result<(), LockError> {
    sleep(Duration::from_millis(50)).await;
    Ok(())
}

/// The `nth` customer, who does not always get a turn in time.
async fn shop(locks: LockManager, nth: usize) {
    for sku in ["shoes", "boots", "hats"].into_iter().cycle().skip(nth) {
        let _ = purchase(&locks, sku).await;
    }
}

/// A request made by hand says its label.
async fn reports(locks: LockManager) -> Result<(), LockError> {
    loop {
        let request = locks.lock("report:2026-11-22").label("nightly-report").wait(Duration::from_secs(5));
        request.run_value(async |_| sleep(Duration::from_millis(20)).await).await?;
    }
}

/// A real service has a route for this in its HTTP server, or the exporter's feature
/// `http-listener`.
async fn answer(mut scraper: TcpStream, metrics: String) -> std::io::Result<()> {
    let _request = scraper.read(&mut [0; 4096]).await?;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n";
    scraper.write_all(format!("{head}Content-Length: {}\r\n\r\n{metrics}", metrics.len()).as_bytes()).await?;
    scraper.shutdown().await
}

async fn serve(listener: TcpListener, metrics: PrometheusHandle) -> std::io::Result<()> {
    loop {
        let (scraper, _) = listener.accept().await?;
        tokio::spawn(answer(scraper, metrics.render()));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(word) = std::env::args().nth(1) {
        eprintln!("`{word}`: it takes no arguments, but REDIS_URL and METRICS_ADDRESS");
        std::process::exit(2);
    }
    // Before the first lock manager, whose start describes the metrics.
    let builder = PrometheusBuilder::new();
    let builder = builder.set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?;
    let metrics = builder.install_recorder()?;

    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://metrics".to_owned());
    let locks = LockManager::connect(&url).await?;
    for nth in 0..15 {
        tokio::spawn(shop(locks.clone(), nth));
    }
    for _ in 0..2 {
        tokio::spawn(reports(locks.clone()));
    }

    let address = std::env::var("METRICS_ADDRESS").unwrap_or_else(|_| "127.0.0.1:9464".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("metrics at http://{}/metrics", listener.local_addr()?);
    serve(listener, metrics).await?;
    Ok(())
}
