//! The flash sale over real HTTP: a service with one route that reads the stock and writes it back
//! under the lock, and `wrk` with as many connections as there are customers, each of which asks
//! again as soon as it is answered.
//!
//! It runs for a fixed time, because that is how `wrk` counts. A customer who still waits when
//! `wrk` hangs up is in none of its percentiles, so the service records the longest wait, answered
//! or not. Stock and sales are written in one transaction: they add up to the first stock, unless
//! two customers were inside together.

use std::path::{Path as FilePath, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use redis::aio::MultiplexedConnection;
use redlocked::{LockError, LockManager, distributed_lock};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::contender::{Client, Kind};
use crate::field;
use crate::report::Report;
use crate::series::{Series, Table};
use crate::workload::{Extent, Servers};
use kit::bare::{OwnThread, connect};
use kit::figures::percentile;
use kit::wake::WakeAndAsk;
use kit::{RedisServer, eventually, unique};

const WAIT: Duration = Duration::from_secs(30);

/// More than the service can sell in the time.
const STOCK: u64 = 100_000_000;

const NO_LOCK: &str = "no lock, which sells things twice";
const TOLD: &str = "SET NX PX, again when a PUBLISH says so";
const OURS: &str = "redlocked, the attribute on the handler";

/// The names of these contenders in the other workloads.
const OTHERS: [&str; 3] = ["SET NX PX, again every 50 ms", "rslock 0.10.0", "rlock 0.2.0"];

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let Some(wrk) = Wrk::find() else {
        report.left_out("the flash sale over HTTP", "there is no `wrk` on PATH");
        return;
    };
    let customers = extent.of(1000, 200);
    let lasts = Duration::from_secs(extent.of(4, 1));
    let mut series: Vec<_> = [(NO_LOCK, Kind::Reference), (TOLD, Kind::Article), (OURS, Kind::Ours)]
        .into_iter()
        .chain(OTHERS.map(|name| (name, if name.starts_with("SET") { Kind::Article } else { Kind::Peer })))
        .map(|(name, kind)| (Series::new(name, kind), Vec::new()))
        .collect();
    for round in 0..extent.of(2, 1) {
        let turns = series.len();
        for turn in 0..turns {
            let (series, days) = &mut series[(turn + round) % turns];
            let day = hold(&servers.redis, &wrk, &series.name, customers, lasts);
            series.rounds.push((day.served > 0.0).then_some(day.served));
            days.push(day);
        }
    }
    let table = Table {
        workload: "flash sale over HTTP",
        title: &format!("{customers} connections of wrk for {lasts:?}, one item, wait {WAIT:?}"),
        unit: "requests/s",
        more_is_better: true,
        references: &[(NO_LOCK, "no lock")],
        more: &["sold twice"],
    };
    let series = series.into_iter().map(|(mut series, days)| {
        let middle = |of: fn(&Day) -> f64| Some(percentile(&days.iter().map(of).collect::<Vec<_>>(), 50));
        series.cost("p99 in ms", middle(|day| day.p99));
        series.cost("longest wait in ms, answered or not", middle(|day| day.longest));
        series.cost("failed", middle(|day| day.failed));
        series.more = vec![json!(days.iter().map(|day| day.sold_twice).sum::<u64>())];
        series
    });
    report.add(&table, &series.collect::<Vec<_>>());
}

struct Day {
    /// Requests a second.
    served: f64,
    p99: f64,
    longest: f64,
    failed: f64,
    sold_twice: u64,
}

fn hold(server: &RedisServer, wrk: &Wrk, name: &str, customers: u32, lasts: Duration) -> Day {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let thread = OwnThread::start();
    let shop = runtime.block_on(Shop::open(server, &thread, name));
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let service = Router::new().route("/buy/{sku}", shop.route());
    let service = service.layer(from_fn_with_state(shop.clone(), visit)).with_state(shop.clone());
    runtime.spawn(async move { axum::serve(listener, service).await });
    let mut day = wrk.run(&format!("http://127.0.0.1:{port}/buy/shoes"), customers, lasts);
    // It has hung up, so the remaining waiters are gone soon.
    eventually("the shop is empty", || shop.inside.load(Ordering::SeqCst) == 0);
    day.longest = Duration::from_micros(shop.longest.load(Ordering::SeqCst)).as_secs_f64() * 1e3;
    day.sold_twice = runtime.block_on(shop.sold_twice());
    shut(runtime, shop);
    day
}

/// Dropped in this order: connections end before the threads that drive them.
fn shut(runtime: Runtime, shop: Arc<Shop>) {
    drop(shop);
    runtime.shutdown_timeout(Duration::from_secs(2));
}

// The service -------------------------------------------------------------------------------------

struct Shop {
    connection: MultiplexedConnection,
    locks: LockManager,
    told: WakeAndAsk,
    /// `None` for those with a handler of their own.
    client: Option<Arc<dyn Client>>,
    name: String,
    stock: String,
    sold: String,
    inside: AtomicU64,
    /// In microseconds.
    longest: AtomicU64,
}

impl Shop {
    async fn open(server: &RedisServer, thread: &OwnThread, name: &str) -> Arc<Self> {
        let url = server.url();
        let client = field::all(&url, 1).await.into_iter().find(|one| one.name == name);
        let (stock, sold) = (unique("stock"), unique("sold"));
        let mut connection = connect(&url).await;
        let _: () = redis::cmd("SET").arg(&stock).arg(STOCK).query_async(&mut connection).await.unwrap();
        Arc::new(Self {
            connection,
            locks: LockManager::connect(&url).await.unwrap(),
            told: WakeAndAsk::connect_on(thread, &url, &unique("told")).await,
            client: client.map(|mut contender| contender.clients.remove(0)),
            name: name.to_owned(),
            stock,
            sold,
            inside: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        })
    }

    fn route(&self) -> MethodRouter<Arc<Self>> {
        match &*self.name {
            NO_LOCK => get(buy_without),
            TOLD => get(buy_when_told),
            OURS => get(buy),
            _ => get(buy_as_others_do),
        }
    }

    /// The purchase, which two customers must not make at the same time.
    async fn sell(&self) {
        let mut connection = self.connection.clone();
        let stock: u64 = redis::cmd("GET").arg(&self.stock).query_async(&mut connection).await.unwrap();
        let mut sale = redis::pipe();
        sale.atomic().cmd("SET").arg(&self.stock).arg(stock - 1).ignore();
        sale.cmd("INCR").arg(&self.sold).ignore();
        sale.query_async::<()>(&mut connection).await.unwrap();
    }

    async fn sold_twice(&self) -> u64 {
        let mut connection = self.connection.clone();
        let mut both = redis::cmd("MGET");
        let (stock, sold): (u64, Option<u64>) =
            both.arg(&self.stock).arg(&self.sold).query_async(&mut connection).await.unwrap();
        (stock + sold.unwrap_or_default()).abs_diff(STOCK)
    }
}

/// From the first line of a handler until it has answered, or its client has hung up.
struct Visit {
    shop: Arc<Shop>,
    since: Instant,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let lasted = u64::try_from(self.since.elapsed().as_micros()).unwrap();
        self.shop.longest.fetch_max(lasted, Ordering::SeqCst);
        self.shop.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A caller that does not get the lock gets this status.
struct Refused;

impl From<LockError> for Refused {
    fn from(_: LockError) -> Self {
        Self
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

#[distributed_lock(key = "{shop.stock}:{sku}", ttl = "30s", wait = WAIT, manager = shop.locks)]
async fn buy(State(shop): State<Arc<Shop>>, Path(sku): Path<String>) -> Result<&'static str, Refused> {
    shop.sell().await;
    Ok("yours")
}

async fn buy_without(State(shop): State<Arc<Shop>>, Path(_): Path<String>) -> &'static str {
    shop.sell().await;
    "yours"
}

async fn buy_when_told(
    State(shop): State<Arc<Shop>>,
    Path(_): Path<String>,
) -> Result<&'static str, Refused> {
    let mut lock = shop.told.clone();
    let token = tokio::time::timeout(WAIT, lock.acquire()).await.map_err(|_| Refused)?;
    shop.sell().await;
    lock.release(&token).await;
    Ok("yours")
}

async fn buy_as_others_do(
    State(shop): State<Arc<Shop>>,
    Path(sku): Path<String>,
) -> Result<&'static str, Refused> {
    let client = shop.client.clone().ok_or(Refused)?;
    let key = format!("{}:{sku}", shop.stock);
    let body = async move { shop.sell().await };
    client.locked(key, WAIT, Box::pin(body)).await.map(|()| "yours").map_err(|_| Refused)
}

/// Middleware around each handler.
async fn visit(State(shop): State<Arc<Shop>>, request: Request, next: Next) -> Response {
    shop.inside.fetch_add(1, Ordering::SeqCst);
    let _visit = Visit { shop, since: Instant::now() };
    next.run(request).await
}

// Its customers -----------------------------------------------------------------------------------

/// Has `wrk` print its results in a form that is easy to parse.
const TELL: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("\nfigures %d %d %f %d %d\n", summary.requests, summary.duration,
    latency:percentile(99), e.status, e.connect + e.read + e.write + e.timeout))
end
"#;

struct Wrk {
    script: PathBuf,
}

impl Wrk {
    fn find() -> Option<Self> {
        Command::new("wrk").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        let script = FilePath::new(&std::env::temp_dir()).join(unique("wrk")).with_extension("lua");
        std::fs::write(&script, TELL).unwrap();
        Some(Self { script })
    }

    fn run(&self, url: &str, customers: u32, lasts: Duration) -> Day {
        let mut wrk = Command::new("wrk");
        wrk.args(["--threads", "1", "--timeout", "60s", "--connections", &customers.to_string()]);
        wrk.args(["--duration", &format!("{}s", lasts.as_secs())]).arg("--script").arg(&self.script).arg(url);
        let output = wrk.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let figures = said.lines().find_map(|line| line.strip_prefix("figures ")).unwrap_or_else(|| {
            panic!("wrk says {said} {}", String::from_utf8_lossy(&output.stderr));
        });
        let figures: Vec<f64> = figures.split(' ').map(|word| word.parse().unwrap()).collect();
        let [requests, micros, p99, refused, broken] = figures[..] else {
            panic!("wrk gave other figures");
        };
        let served = (requests - refused) / (micros / 1e6);
        Day { served, p99: p99 / 1e3, longest: 0.0, failed: refused + broken, sold_twice: 0 }
    }
}

impl Drop for Wrk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.script);
    }
}
