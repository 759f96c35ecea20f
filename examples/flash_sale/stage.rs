//! Starts the servers, a redis-server and the keys of the sale, and removes all of them at its end.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::SocketAddr;

use redis::AsyncCommands as _;
use redlocked::LockManager;
use tokio::process::Child;
use tokio::task::JoinSet;

use crate::Failure;
use crate::backend::{self, Backend};
use crate::child;
use crate::diary::Diary;
use crate::keeper;
use crate::server;
use crate::shop::Shop;
use crate::stock::stock_key;

const SERVERS: usize = 3;

pub(crate) struct Stage {
    /// The article on sale. Its name is new each time, so that two runs on one Redis do not share
    /// it.
    sku: String,
    processes: Vec<Child>,
    redis: Option<Child>,
    listeners: JoinSet<Result<(), Failure>>,
    /// The Redis of the user, from which we remove our keys.
    guest_at: Option<String>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        // The seed of a hash map is random.
        let random = RandomState::new().build_hasher().finish() >> 32;
        Self {
            sku: format!("sneakers-{random:08x}"),
            processes: Vec::new(),
            redis: None,
            listeners: JoinSet::new(),
            guest_at: None,
        }
    }

    pub(crate) fn sku(&self) -> &str {
        &self.sku
    }

    /// The address of a redis-server that is started for this run, or `None` when there is none on
    /// PATH.
    pub(crate) async fn start_redis(&mut self) -> Result<Option<String>, Failure> {
        let keeper = self.redis.insert(child::command(&[keeper::COMMAND])?.spawn()?);
        let answer = child::first_line(keeper).await?;
        Ok((answer != keeper::NONE).then_some(answer))
    }

    pub(crate) fn tidy_up_at(&mut self, url: &str) {
        self.guest_at = Some(url.to_owned());
    }

    /// Starts three servers and answers where they are.
    pub(crate) async fn open_shop(&mut self, backend: &Backend) -> Result<Vec<SocketAddr>, Failure> {
        let mut addresses = Vec::new();
        match backend {
            Backend::Redis { url, .. } => {
                for number in 1..=SERVERS {
                    let arguments = [server::COMMAND, &number.to_string()];
                    let server = child::command(&arguments)?.env(server::REDIS, url).spawn()?;
                    self.processes.push(server);
                }
                for server in &mut self.processes {
                    addresses.push(child::first_line(server).await?.parse()?);
                }
            }
            Backend::Memory { url, stock } => {
                for number in 1..=SERVERS {
                    let locks = LockManager::connect(url).await?;
                    let shop = Shop { server: number, locks, stock: stock.clone(), diary: Diary::default() };
                    let listener = server::listen().await?;
                    addresses.push(listener.local_addr()?);
                    self.listeners.spawn(server::serve(listener, shop));
                }
            }
        }
        Ok(addresses)
    }

    /// Ends everything, servers first.
    pub(crate) async fn clear(mut self) -> Result<(), Failure> {
        self.listeners.shutdown().await;
        child::end(self.processes).await;
        child::end(self.redis.into_iter().collect()).await;
        let Some(url) = &self.guest_at else {
            return Ok(());
        };
        // All possible holders are gone. After Ctrl-C they had no time to release the lock.
        let keys = [stock_key(&self.sku), format!("lock:stock:{}", self.sku)];
        let removed: Result<(), _> = async { backend::connect(url).await?.del(&keys).await }.await;
        removed
            .map_err(|error| format!("the keys {} could not be removed: {error}", keys.join(" and ")).into())
    }
}

/// Ready when a signal asks this program to end.
#[cfg(unix)]
pub(crate) async fn interrupted() -> Failure {
    use tokio::signal::unix::{SignalKind, signal};

    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals else {
        return "the signals of the operating system cannot be listened to".into();
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    "interrupted".into()
}

/// Ready when a signal asks this program to end.
#[cfg(not(unix))]
pub(crate) async fn interrupted() -> Failure {
    match tokio::signal::ctrl_c().await {
        Ok(()) => "interrupted".into(),
        Err(error) => error.into(),
    }
}
