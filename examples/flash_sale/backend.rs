//! Where lock and stock live: in a Redis, or in this process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError};

use crate::Failure;
use crate::stage::Stage;
use crate::stock::Stock;

pub(crate) enum Backend {
    /// Three server processes.
    Redis { url: String, address: String, started_here: bool, connection: MultiplexedConnection },
    /// Three listeners in this process: without redis-server, or when the caller asks for
    /// `memory://`.
    Memory { url: String, stock: Stock },
}

impl Backend {
    /// The Redis at `url`; without a `url` one that is started now; with no redis-server on PATH,
    /// memory.
    pub(crate) async fn choose(stage: &mut Stage, url: Option<String>) -> Result<Self, Failure> {
        let given = url.is_some();
        let url = match url {
            Some(url) => Some(url),
            None => stage.start_redis().await?,
        };
        let Some(url) = url.filter(|url| !url.starts_with("memory://")) else {
            return Ok(Self::Memory {
                url: format!("memory://{}", stage.sku()),
                stock: Stock::Memory(Arc::default()),
            });
        };
        if given {
            stage.tidy_up_at(&url);
        }
        let client = Client::open(url.as_str())
            .map_err(|error| format!("the address of Redis cannot be used: {error}"))?;
        let address = client.get_connection_info().addr().to_string();
        // Redis refuses a connection without the right password only at its first command.
        let greeted = async {
            let mut connection = connect(&url).await?;
            redis::cmd("PING").exec_async(&mut connection).await?;
            Ok(connection)
        };
        let greeted: Result<_, RedisError> = greeted.await;
        let connection = greeted.map_err(|error| format!("Redis at {address}: {error}"))?;
        Ok(Self::Redis { url, address, started_here: !given, connection })
    }

    pub(crate) async fn put_on_sale(&self, sku: &str, items: u32) -> Result<(), RedisError> {
        self.stock().write(sku, items).await
    }

    /// How many commands clients have sent for locking since this Redis was started; `None` without
    /// one.
    ///
    /// Locks are taken, renewed and released by scripts, and the shop uses GET and SETEX only: so
    /// the scripts that were called are the commands of the lock. The commands that scripts call
    /// are counted under other names. On a Redis that others use meanwhile, their scripts are
    /// counted too.
    pub(crate) async fn lock_commands(&self) -> Option<u32> {
        let Self::Redis { connection, .. } = self else {
            return None;
        };
        let mut connection = connection.clone();
        let statistics: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.ok()?;
        let calls = statistics.lines().filter_map(|line| {
            let (command, numbers) = line.split_once(":calls=")?;
            let ours = ["cmdstat_eval", "cmdstat_evalsha"].contains(&command);
            ours.then(|| numbers.split(',').next()?.parse::<u32>().ok()).flatten()
        });
        Some(calls.sum())
    }

    fn stock(&self) -> Stock {
        match self {
            Self::Redis { connection, .. } => Stock::Redis(connection.clone()),
            Self::Memory { stock, .. } => stock.clone(),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis { address, started_here: true, .. } => {
                write!(f, "Redis: a redis-server at {address}, started for this run; each server is a process")
            }
            Self::Redis { address, .. } => write!(f, "Redis: the one at {address}; each server is a process"),
            Self::Memory { .. } => f.write_str(
                "memory://, no Redis: lock, stock and three servers in this one process (with a redis-server on PATH, \
                 with REDIS_URL or with --redis URL it runs on Redis)",
            ),
        }
    }
}

/// A connection of the shop's own. The lock manager has another.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(5)))
        .set_response_timeout(Some(Duration::from_secs(10)));
    Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}
