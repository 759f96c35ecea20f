//! The locks of others, with their own settings for how to wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distributed_lock_core::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::RedisLockProvider;
use redis_lock::LockAcrossOptions;
use redis_of_redis_lock::aio::MultiplexedConnection;
use tokio::sync::Mutex;

use crate::contender::{Body, Client, Clients, Contender, Kind, Outcome, Part, TTL, blocking};

pub async fn join(all: &mut Vec<Contender>, url: &str, clients: usize) {
    let mut peers: [(&str, Part, Clients); 5] = [
        (RSLOCK, Part::Everything, Vec::new()),
        (RLOCK, Part::Everything, Vec::new()),
        ("redis-lock 0.5.1", Part::Everything, Vec::new()),
        ("distributed-lock 0.2.0", Part::Free, Vec::new()),
        ("redlock 2.0.0", Part::Some, Vec::new()),
    ];
    for _ in 0..clients {
        peers[0].2.push(Arc::new(Rslock(rslock::LockManager::new(vec![url]))));
        peers[1].2.push(Arc::new(Rlock(rlock::async_lock::RLock::new(url).await.unwrap())));
        peers[2].2.push(Arc::new(RedisLock::connect(url).await));
        peers[3].2.push(Arc::new(DistributedLocks(RedisLockProvider::new(url).await.unwrap())));
        peers[4].2.push(Arc::new(Redlock(Arc::new(redlock::RedLock::new(vec![url])))));
    }
    all.extend(peers.map(|(name, part, clients)| Contender { name, kind: Kind::Peer, part, clients }));
}

pub const RSLOCK: &str = "rslock 0.10.0";
pub const RLOCK: &str = "rlock 0.2.0";

/// One process of a peer that reconnects, and takes part in a fleet.
pub async fn one(name: &str, url: &str) -> Arc<dyn Client> {
    match name {
        RSLOCK => Arc::new(Rslock(rslock::LockManager::new(vec![url]))),
        RLOCK => Arc::new(Rlock(rlock::async_lock::RLock::new(url).await.unwrap())),
        _ => panic!("{name} takes no part in a fleet"),
    }
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

struct Rslock(rslock::LockManager);

impl Client for Rslock {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let lock = if wait.is_zero() {
                self.0.lock(key.as_str(), TTL).await
            } else {
                // It has no deadline of its own.
                let acquire = self.0.acquire_no_guard(key.as_str(), TTL);
                tokio::time::timeout(wait, acquire).await.map_err(in_words)?
            };
            let lock = lock.map_err(in_words)?;
            body.await;
            self.0.unlock(&lock).await;
            Ok(())
        })
    }
}

struct Rlock(rlock::async_lock::RLock);

impl Client for Rlock {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let options = rlock::AcquireOptions::builder().ttl(TTL);
            let mut guard = if wait.is_zero() {
                let options = options.build().map_err(in_words)?;
                let guard = self.0.try_acquire_mutex_with_options(key, options).await.map_err(in_words)?;
                guard.ok_or("busy")?
            } else {
                let options = options.lock_timeout(Some(wait)).build().map_err(in_words)?;
                self.0.acquire_mutex_with_options(key, options).await.map_err(in_words)?
            };
            body.await;
            guard.release().await.map_err(in_words)
        })
    }
}

struct RedisLock([Arc<Mutex<MultiplexedConnection>>; 1]);

impl RedisLock {
    async fn connect(url: &str) -> Self {
        let client = redis_of_redis_lock::Client::open(url).unwrap();
        Self([Arc::new(Mutex::new(client.get_multiplexed_async_connection().await.unwrap()))])
    }
}

impl Client for RedisLock {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let duration = if wait.is_zero() { Duration::from_secs(1) } else { wait };
            let options = LockAcrossOptions { ttl: TTL, duration, ..LockAcrossOptions::default() };
            redis_lock::lock_across(&self.0, &key, body, options).await.map_err(in_words)
        })
    }
}

struct DistributedLocks(RedisLockProvider);

impl Client for DistributedLocks {
    fn locked(&self, key: String, _: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let handle = self.0.create_lock(&key).try_acquire().await.map_err(in_words)?.ok_or("busy")?;
            body.await;
            handle.release().await.map_err(in_words)
        })
    }
}

struct Redlock(Arc<redlock::RedLock>);

impl Client for Redlock {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        let locks = Arc::clone(&self.0);
        let start = Instant::now();
        Box::pin(blocking(wait, body, move |body| {
            let ttl = usize::try_from(TTL.as_millis()).unwrap();
            // Each call makes three tries, at most 200 ms apart; here in a loop.
            loop {
                if let Some(lock) = locks.lock(key.as_bytes(), ttl).map_err(in_words)? {
                    body();
                    locks.unlock(&lock);
                    return Ok(());
                }
                if start.elapsed() >= wait {
                    return Err("busy".to_owned());
                }
            }
        }))
    }
}
