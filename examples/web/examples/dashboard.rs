//! A busy fleet, and the pages that show its locks in a browser.
//!
//! ```text
//! cargo run -p redlocked-web --example dashboard      # or REDIS_URL=redis://…
//! ```
//!
//! Without `REDIS_URL` it starts a `redis-server` for itself, from PATH. Four processes, each this
//! program again, sell shoes, read a catalogue, share a GPU, elect a leader, run ticks and charge
//! customers once. One of them loses a lease each half minute. The pages are part of a service, as
//! they would be in yours: behind its login, which here is none. It ends on Ctrl-C, or after
//! `--seconds N`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::error::Error;
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use kit::{Arguments, RedisServer, or_usage};
use redlocked::{LockError, LockManager, distributed_lock, key};
use redlocked_dashboard::Dashboard;
use tokio::time::sleep;

/// What makes this program a worker: its number.
const NUMBER: &str = "DASHBOARD_EXAMPLE_NUMBER";
const URL: &str = "REDIS_URL";

const PREFIX: &str = "shop:";
const WORKERS: usize = 4;

type Failed = Box<dyn Error + Send + Sync>;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[distributed_lock(key = "stock:{sku}", ttl = "5s", wait = "20s")]
async fn sell(sku: u32, takes: Duration) -> Result<(), LockError> {
    sleep(takes).await;
    Ok(())
}

#[distributed_lock(key = "catalogue", constant_key, shared, wait = "20s")]
async fn read_catalogue() -> Result<(), LockError> {
    sleep(ms(1_500)).await;
    Ok(())
}

#[distributed_lock(key = "gpu", constant_key, permits = 16, take = { gigabytes }, wait = "60s")]
async fn train(gigabytes: u32) -> Result<(), LockError> {
    sleep(ms(2_500)).await;
    Ok(())
}

#[distributed_lock(key = "report", constant_key, tick = "10s")]
async fn report() -> Result<(), LockError> {
    sleep(ms(800)).await;
    Ok(())
}

#[distributed_lock(key = "charge:{order}", once = "10m")]
async fn charge(order: u64) -> Result<u64, LockError> {
    sleep(ms(300)).await;
    Ok(order)
}

/// Who waits too long, or comes too late for a tick, tries again.
async fn again_and_again(pause: Duration, call: impl AsyncFn() -> Result<(), LockError>) {
    loop {
        // Each error is an outcome of another caller's luck.
        let _ = call().await;
        sleep(pause).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn work(number: u64, url: &str) -> Result<(), Failed> {
    let locks = LockManager::builder(url).prefix(PREFIX).connect().await?;
    locks.clone().set_global();
    let election = locks.election("billing-loop").announce(format!("10.0.0.{number}:8080"));
    let lead = async {
        loop {
            // Each leader leads for a while, and lets others lead.
            let term = election.lead(async |_| {
                sleep(ms(20_000)).await;
                Ok::<_, LockError>(())
            });
            let _ = term.await;
            sleep(ms(500)).await;
        }
    };
    let shoes = async {
        let mut round = number;
        loop {
            round += 1;
            let _ = sell(42, ms(150 + 170 * (round % 5))).await;
            sleep(ms(30)).await;
        }
    };
    let boots = again_and_again(ms(400 + 100 * number), async || sell(7, ms(900)).await);
    let readers = again_and_again(ms(700 * number), async || read_catalogue().await);
    let jobs = async {
        for gigabytes in [1, 8, 2, 5, 3, 4].into_iter().cycle().skip(usize::try_from(number).unwrap_or(0)) {
            let _ = train(gigabytes).await;
        }
    };
    let ticks = again_and_again(ms(1_000), async || report().await);
    let charges = async {
        let mut order = 1_000;
        loop {
            order += 1;
            let _ = charge(order % 1_012).await;
            sleep(ms(2_000)).await;
        }
    };
    let loses = async {
        loop {
            sleep(ms(30_000)).await;
            // As a machine that stands still: nobody renews, and nobody releases.
            if number == 1
                && let Ok(guard) = locks
                    .lock(key!("stock:{}", 42))
                    .ttl(ms(3_000))
                    .renew(false)
                    .wait(ms(20_000))
                    .acquire()
                    .await
            {
                sleep(ms(4_000)).await;
                drop(guard);
            }
        }
    };
    tokio::join!(lead, shoes, boots, readers, jobs, ticks, charges, loses);
    Ok(())
}

/// A service: its own pages, and those of the locks.
#[tokio::main]
async fn serve(url: &str, limit: Option<Duration>) -> Result<(), Failed> {
    let locks = LockManager::builder(url).prefix(PREFIX).connect().await?;
    let app = Router::new()
        .route("/", get(async || Redirect::to("/admin/locks")))
        .nest("/admin/locks", Dashboard::new(&locks).allow_release(true).router());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}/admin/locks", listener.local_addr()?);
    println!("Four processes use locks. Open the address in a browser, and click a key; Ctrl-C ends it all.");
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let over = async {
        match limit {
            Some(limit) => sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        served = axum::serve(listener, service) => served?,
        _ = tokio::signal::ctrl_c() => {}
        () = over => {}
    }
    Ok(())
}

struct Fleet(Vec<Child>);

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // One that has ended already cannot be killed.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn seconds(mut arguments: Arguments) -> Result<Option<Duration>, String> {
    let seconds = arguments.value("--seconds", "a number of seconds")?;
    arguments.end()?;
    Ok(seconds.map(Duration::from_secs))
}

fn run() -> Result<(), Failed> {
    let limit = or_usage(seconds(Arguments::of_this_process()), "usage: dashboard [--seconds N]");
    let given = std::env::var(URL).ok().filter(|url| !url.is_empty());
    let server = if given.is_some() { None } else { Some(RedisServer::start()) };
    let url = given.or(server.as_ref().map(RedisServer::url)).unwrap_or_default();
    let program = std::env::current_exe()?;
    let start = |number: usize| Command::new(&program).env(NUMBER, number.to_string()).env(URL, &url).spawn();
    let _fleet = Fleet((1..=WORKERS).map(start).collect::<Result<_, _>>()?);
    serve(&url, limit)
}

fn main() -> ExitCode {
    let outcome = match std::env::var(NUMBER).ok().and_then(|number| number.parse().ok()) {
        Some(number) => work(number, &std::env::var(URL).unwrap_or_default()),
        None => run(),
    };
    if let Err(error) = outcome {
        eprintln!("dashboard: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
