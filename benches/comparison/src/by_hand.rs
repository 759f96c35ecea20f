//! The bare limits, and the lock that most articles show: `SET NX PX`, a script that compares and deletes, and one of
//! several ways to retry.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use kit::bare::{COMPARE_AND_DELETE, token};
use redis::aio::MultiplexedConnection;

use crate::contender::{
    Body, Client, Clients, Contender, Kind, LIMIT, LIMIT_APART, LIMIT_SYNC, Outcome, PING, Part, TTL,
    blocking,
};

#[derive(Clone, Copy)]
enum Again {
    Never,
    Every(Duration),
    /// Without a pause for the first time, then with the second as pause.
    SpinThenSleep(Duration, Duration),
}

const MS: Duration = Duration::from_millis(1);

const WAYS: [(&str, Again); 5] = [
    (EVERY_50_MS, Again::Every(Duration::from_millis(50))),
    ("SET NX PX, again every 200 ms", Again::Every(Duration::from_millis(200))),
    (EVERY_2_S, Again::Every(Duration::from_secs(2))),
    (SPINS, Again::Every(Duration::ZERO)),
    (
        "SET NX PX, spins 600 ms, then every 200 ms",
        Again::SpinThenSleep(Duration::from_millis(600), Duration::from_millis(200)),
    ),
];

pub const EVERY_50_MS: &str = "SET NX PX, again every 50 ms";
pub const SPINS: &str = "SET NX PX, spins";

/// Too slow to take part everywhere.
pub const EVERY_2_S: &str = "SET NX PX, again every 2 s";

/// The limits that every lock on a server is measured against.
pub async fn join_limits(all: &mut Vec<Contender>, url: &str, clients: usize) {
    let limit = |name, part, clients| Contender { name, kind: Kind::Limit, part, clients };
    let ping: Arc<dyn Client> = Arc::new(Ping { connection: connect(url).await });
    all.push(limit(PING, Part::Free, vec![ping; clients]));
    let here: Arc<dyn Client> = Arc::new(SetNx::connect(url, Again::Never).await);
    all.push(limit(LIMIT, Part::Free, vec![here; clients]));
    let to = url.to_owned();
    let apart = OWN_THREAD.spawn(async move { SetNx::connect(&to, Again::Never).await }).await.unwrap();
    let apart: Arc<dyn Client> = Arc::new(apart);
    all.push(limit(LIMIT_APART, Part::Free, vec![apart; clients]));
    let sync: Arc<dyn Client> = Arc::new(SyncSetNx::connect(url));
    all.push(limit(LIMIT_SYNC, Part::Alone, vec![sync; clients]));
}

/// The lock of the articles, once for each way to retry.
pub async fn join(all: &mut Vec<Contender>, url: &str, clients: usize) {
    for (name, again) in WAYS {
        let mut of_it = Clients::new();
        for _ in 0..clients {
            of_it.push(Arc::new(SetNx::connect(url, again).await));
        }
        all.push(Contender { name, kind: Kind::Article, part: Part::Waiting, clients: of_it });
    }
}

/// A runtime on a thread of its own that only drives connections.
static OWN_THREAD: LazyLock<tokio::runtime::Handle> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
});

/// A well-configured connection: no delay of small packets (redis' default), and no timer for each request.
pub async fn connect(url: &str) -> MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let client = redis::Client::open(url).unwrap();
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

struct Ping {
    connection: MultiplexedConnection,
}

impl Client for Ping {
    fn locked(&self, _: String, _: Duration, body: Body) -> Outcome<'_> {
        let mut connection = self.connection.clone();
        Box::pin(async move {
            let _: String = redis::cmd("PING").query_async(&mut connection).await.map_err(in_words)?;
            body.await;
            Ok(())
        })
    }
}

pub struct SetNx {
    connection: MultiplexedConnection,
    hash: String,
    again: Again,
}

impl SetNx {
    async fn connect(url: &str, again: Again) -> Self {
        let mut connection = connect(url).await;
        let mut load = redis::cmd("SCRIPT");
        let hash = load.arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection).await.unwrap();
        Self { connection, hash, again }
    }

    pub async fn every(url: &str, pause: Duration) -> Self {
        Self::connect(url, Again::Every(pause)).await
    }

    pub async fn once(url: &str) -> Self {
        Self::connect(url, Again::Never).await
    }

    /// Takes and releases a lock of each key, in two pipelines; returns how many.
    pub async fn all_at_once(&self, keys: &[String]) -> u32 {
        let tokens: Vec<String> = keys.iter().map(|_| token()).collect();
        let (mut acquire, mut release) = (redis::pipe(), redis::pipe());
        for (key, token) in keys.iter().zip(&tokens) {
            acquire.add_command(set_nx(key, token));
            release.cmd("EVALSHA").arg(&self.hash).arg(1).arg(key).arg(token);
        }
        let mut connection = self.connection.clone();
        let acquired: Vec<bool> = acquire.query_async(&mut connection).await.unwrap();
        let released: Vec<u32> = release.query_async(&mut connection).await.unwrap();
        assert!(acquired.iter().all(|held| *held));
        released.iter().sum()
    }

    pub async fn acquire(&self, key: &str, wait: Duration) -> Result<String, String> {
        let mut connection = self.connection.clone();
        let start = Instant::now();
        loop {
            let token = token();
            if set_nx(key, &token).query_async::<bool>(&mut connection).await.map_err(in_words)? {
                return Ok(token);
            }
            let waited = start.elapsed();
            if waited >= wait {
                return Err("busy".to_owned());
            }
            let pause = match self.again {
                Again::Never => return Err("busy".to_owned()),
                Again::SpinThenSleep(spin, _) if waited < spin => Duration::ZERO,
                Again::Every(pause) | Again::SpinThenSleep(_, pause) => pause,
            };
            if pause.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(pause.min(wait.saturating_sub(waited) + MS)).await;
            }
        }
    }

    pub async fn release(&self, key: &str, token: &str) -> Result<(), String> {
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.hash).arg(1).arg(key).arg(token);
        match release.query_async::<u8>(&mut self.connection.clone()).await {
            Ok(1) => Ok(()),
            Ok(_) => Err("lost".to_owned()),
            Err(error) => Err(in_words(error)),
        }
    }
}

impl Client for SetNx {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let token = self.acquire(&key, wait).await?;
            body.await;
            self.release(&key, &token).await
        })
    }
}

/// One try, on a connection that blocks.
struct SyncSetNx {
    connection: Arc<Mutex<redis::Connection>>,
    hash: Arc<str>,
}

impl SyncSetNx {
    fn connect(url: &str) -> Self {
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let mut load = redis::cmd("SCRIPT");
        let hash: String = load.arg("LOAD").arg(COMPARE_AND_DELETE).query(&mut connection).unwrap();
        Self { connection: Arc::new(Mutex::new(connection)), hash: hash.into() }
    }
}

impl Client for SyncSetNx {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        let (connection, hash) = (Arc::clone(&self.connection), Arc::clone(&self.hash));
        Box::pin(blocking(wait, body, move |body| {
            let mut connection = connection.lock().unwrap();
            let token = token();
            if !set_nx(&key, &token).query::<bool>(&mut *connection).map_err(in_words)? {
                return Err("busy".to_owned());
            }
            body();
            let mut release = redis::cmd("EVALSHA");
            release.arg(&*hash).arg(1).arg(&key).arg(token);
            match release.query::<u8>(&mut *connection) {
                Ok(1) => Ok(()),
                Ok(_) => Err("lost".to_owned()),
                Err(error) => Err(in_words(error)),
            }
        }))
    }
}

pub fn set_nx(key: &str, token: &str) -> redis::Cmd {
    let mut set = redis::cmd("SET");
    set.arg(key).arg(token).arg("NX").arg("PX").arg(u64::try_from(TTL.as_millis()).unwrap());
    set
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn in_words(error: redis::RedisError) -> String {
    error.to_string()
}
