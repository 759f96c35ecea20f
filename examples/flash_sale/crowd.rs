//! The customers: each with a connection of its own to one of the servers, many requests at a time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::diary::Visit;
use crate::shop::{Receipt, Sale};
use crate::{Failure, REQUESTS, server};

/// A request without an answer for this long has failed: longer than a customer may wait for the
/// lock.
const PATIENCE: Duration = Duration::from_secs(60);

/// The answers to the customers.
#[derive(Default)]
pub(crate) struct Purchases {
    pub(crate) sold: u32,
    pub(crate) sold_out: u32,
    pub(crate) failed: u32,
    pub(crate) first_failure: Option<String>,
    /// The latency of each request, sorted.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) took: Duration,
}

/// All customers.
pub(crate) struct Crowd {
    servers: Vec<SocketAddr>,
    customers: Vec<Customer>,
}

impl Crowd {
    /// One customer for each request under way at a time, dealt out to the servers in turn.
    pub(crate) async fn gather(servers: Vec<SocketAddr>, customers: usize) -> Result<Self, Failure> {
        let mut crowd = Self { servers, customers: Vec::new() };
        for (server, address) in crowd.servers.iter().enumerate().cycle().take(customers) {
            crowd.customers.push(Customer { server, http: Http::connect(*address).await? });
        }
        Ok(crowd)
    }

    /// All requests of one sale, dealt out to the servers in turn.
    pub(crate) async fn rush(&mut self, sale: Sale, sku: &str) -> Result<Purchases, Failure> {
        let bar = Progress::new(sale)?;
        let path: Arc<str> = format!("{}{sku}", sale.route()).into();
        let servers = self.servers.len();
        // The request with the number n goes to server n modulo 3, whose customers take the next
        // one each.
        let next: Arc<[AtomicUsize]> = (0..servers).map(AtomicUsize::new).collect();

        let start = Instant::now();
        let mut shopping = JoinSet::new();
        for mut customer in self.customers.drain(..) {
            let (path, next, bar) = (Arc::clone(&path), Arc::clone(&next), bar.0.clone());
            shopping.spawn(async move {
                let mut bought = Vec::new();
                while next[customer.server].fetch_add(servers, Ordering::Relaxed) < REQUESTS {
                    let sent = Instant::now();
                    let answer = customer.buy(&path).await;
                    bought.push((sent.elapsed(), answer));
                    bar.inc(1);
                }
                (customer, bought)
            });
        }
        let mut purchases = Purchases::default();
        while let Some(done) = shopping.join_next().await {
            let (customer, bought) = done?;
            self.customers.push(customer);
            for (latency, answer) in bought {
                purchases.latencies.push(latency);
                match answer {
                    Ok(Some(_receipt)) => purchases.sold += 1,
                    Ok(None) => purchases.sold_out += 1,
                    Err(failure) => {
                        purchases.failed += 1;
                        purchases.first_failure.get_or_insert(failure.to_string());
                    }
                }
            }
        }
        purchases.took = start.elapsed();
        purchases.latencies.sort_unstable();
        Ok(purchases)
    }

    /// The visits to the handler, server by server.
    pub(crate) async fn diaries(&self) -> Result<Vec<Vec<Visit>>, Failure> {
        let mut diaries = Vec::new();
        for server in &self.servers {
            let (_, body) = Http::connect(*server).await?.call(Method::GET, server::DIARY).await?;
            diaries.push(Json::from_bytes(&body)?.0);
        }
        Ok(diaries)
    }
}

struct Customer {
    server: usize,
    http: Http,
}

impl Customer {
    /// A receipt, or `None` when the article is sold out.
    async fn buy(&mut self, path: &str) -> Result<Option<Receipt>, Failure> {
        let (status, body) = timeout(PATIENCE, self.http.call(Method::POST, path)).await??;
        match status {
            StatusCode::OK => Ok(Some(Json::from_bytes(&body)?.0)),
            StatusCode::CONFLICT => Ok(None),
            _ => Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into()),
        }
    }
}

/// One connection, kept open.
struct Http {
    host: String,
    requests: SendRequest<Body>,
}

impl Http {
    async fn connect(server: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends when `requests` is dropped. Should it break before, the next request fails.
        tokio::spawn(connection);
        Ok(Self { host: server.to_string(), requests })
    }

    async fn call(&mut self, method: Method, path: &str) -> Result<(StatusCode, Vec<u8>), Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.host)
            .body(Body::empty())?;
        self.requests.ready().await?;
        let (head, body) = self.requests.send_request(request).await?.into_parts();
        Ok((head.status, to_bytes(Body::new(body), 1 << 20).await?.into()))
    }
}

/// A progress line on stderr, only when that is a terminal. Cleared when it is dropped.
struct Progress(ProgressBar);

impl Progress {
    fn new(sale: Sale) -> Result<Self, Failure> {
        let style = ProgressStyle::with_template("{msg:>16} {wide_bar} {pos}/{len} {elapsed}")?;
        let bar = ProgressBar::new(u64::try_from(REQUESTS)?).with_style(style).with_message(sale.to_string());
        bar.enable_steady_tick(Duration::from_millis(100));
        Ok(Self(bar))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// How many of `wanted` customers there is room for: each is an open file at both ends, and on
/// memory:// both ends are in this process. Processes that are started later inherit the limit.
#[cfg(unix)]
pub(crate) fn room_for(wanted: usize) -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};

    const OTHERS: u64 = 100;
    let needed = 2 * u64::try_from(wanted).unwrap_or(u64::MAX / 2) + OTHERS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = Some(limit.maximum.map_or(needed, |maximum| maximum.min(needed)));
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let allowed = getrlimit(Resource::Nofile).current.map_or(needed, |current| current.min(needed));
    usize::try_from(allowed.saturating_sub(OTHERS) / 2).unwrap_or(wanted).clamp(1, wanted)
}

/// How many of `wanted` customers there is room for.
#[cfg(not(unix))]
pub(crate) fn room_for(wanted: usize) -> usize {
    wanted
}
