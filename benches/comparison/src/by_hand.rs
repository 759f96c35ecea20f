//! The bare commands, and the lock that most articles show: `SET NX PX`, a script that compares and
//! deletes, and one of several ways to retry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kit::bare::{Bare, COMPARE_AND_DELETE, Ping, connect, token};
use redis::aio::MultiplexedConnection;

use crate::contender::{Body, Client, Clients, Contender, Kind, Outcome, PING, Part, REFERENCE, TTL};

const MS: Duration = Duration::from_millis(1);

pub const EVERY_50_MS: &str = "SET NX PX, again every 50 ms";
pub const SPINS: &str = "SET NX PX, spins";

/// The references for every lock on a server.
pub async fn join_limits(all: &mut Vec<Contender>, url: &str, clients: usize) {
    let reference = |name, clients| Contender { name, kind: Kind::Reference, part: Part::Free, clients };
    let ping: Arc<dyn Client> = Arc::new(Ping::connect(url).await);
    all.push(reference(PING, vec![ping; clients]));
    let bare: Arc<dyn Client> = Arc::new(Bare::connect(url).await);
    all.push(reference(REFERENCE, vec![bare; clients]));
}

/// The lock of the articles, once for each pause between two tries.
pub async fn join(all: &mut Vec<Contender>, url: &str, clients: usize) {
    for (name, pause) in [(EVERY_50_MS, 50 * MS), (SPINS, Duration::ZERO)] {
        let mut of_it = Clients::new();
        for _ in 0..clients {
            of_it.push(Arc::new(SetNx::every(url, pause).await));
        }
        all.push(Contender { name, kind: Kind::Article, part: Part::Waiting, clients: of_it });
    }
}

pub struct SetNx {
    connection: MultiplexedConnection,
    hash: String,
    /// Between two tries.
    pause: Duration,
}

impl SetNx {
    pub async fn every(url: &str, pause: Duration) -> Self {
        let mut connection = connect(url).await;
        let mut load = redis::cmd("SCRIPT");
        let hash = load.arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection).await.unwrap();
        Self { connection, hash, pause }
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
            if self.pause.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(self.pause.min(wait.saturating_sub(waited) + MS)).await;
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

fn set_nx(key: &str, token: &str) -> redis::Cmd {
    let mut set = redis::cmd("SET");
    set.arg(key).arg(token).arg("NX").arg("PX").arg(u64::try_from(TTL.as_millis()).unwrap());
    set
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn in_words(error: redis::RedisError) -> String {
    error.to_string()
}
