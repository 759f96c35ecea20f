//! The bare limits, and the locks that the classic articles show: `SET NX PX`, a script that compares and deletes, and
//! some way to try again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

use crate::contender::{Body, Client, Clients, Contender, Kind, LIMIT, Outcome, PING, Part, TTL};

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

#[derive(Clone, Copy)]
enum Again {
    Never,
    Every(Duration),
    /// Without a pause for so long, and then every so often.
    SpinThenSleep(Duration, Duration),
}

const MS: Duration = Duration::from_millis(1);

const WAYS: [(&str, Kind, Part, Again); 4] = [
    (LIMIT, Kind::Limit, Part::Free, Again::Never),
    (
        "SET NX PX, again every 50 ms",
        Kind::Article,
        Part::Everything,
        Again::Every(Duration::from_millis(50)),
    ),
    (
        "SET NX PX, again every 200 ms",
        Kind::Article,
        Part::Everything,
        Again::Every(Duration::from_millis(200)),
    ),
    (
        "SET NX PX, spins 600 ms, then every 200 ms",
        Kind::Article,
        Part::Everything,
        Again::SpinThenSleep(Duration::from_millis(600), Duration::from_millis(200)),
    ),
];

pub async fn join(all: &mut Vec<Contender>, url: &str, clients: usize) {
    let ping: Arc<dyn Client> = Arc::new(Ping { connection: connect(url).await });
    all.push(Contender { name: PING, kind: Kind::Limit, part: Part::Free, clients: vec![ping; clients] });
    for (name, kind, part, again) in WAYS {
        let mut of_it: Clients = Vec::new();
        for _ in 0..clients {
            of_it.push(Arc::new(SetNx::connect(url, again).await));
        }
        all.push(Contender { name, kind, part, clients: of_it });
    }
}

/// A connection as it should be: no delay of small packets (redis' default), and no timer for each request.
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

struct SetNx {
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

    async fn acquire(&self, key: &str, wait: Duration) -> Result<String, String> {
        let mut connection = self.connection.clone();
        let start = Instant::now();
        loop {
            let token = token();
            let mut set = redis::cmd("SET");
            set.arg(key).arg(&token).arg("NX").arg("PX").arg(u64::try_from(TTL.as_millis()).unwrap());
            if set.query_async::<bool>(&mut connection).await.map_err(in_words)? {
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
}

impl Client for SetNx {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let token = self.acquire(&key, wait).await?;
            body.await;
            let mut release = redis::cmd("EVALSHA");
            release.arg(&self.hash).arg(1).arg(&key).arg(token);
            match release.query_async::<u8>(&mut self.connection.clone()).await {
                Ok(1) => Ok(()),
                Ok(_) => Err("lost".to_owned()),
                Err(error) => Err(in_words(error)),
            }
        })
    }
}

/// As long as ours, and cheaper.
fn token() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:022}@a-host:{}", NEXT.fetch_add(1, Ordering::Relaxed), std::process::id())
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn in_words(error: redis::RedisError) -> String {
    error.to_string()
}
