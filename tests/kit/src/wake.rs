//! The usual way to wait: a release publishes that the lock is free, and a waiter that receives it
//! asks again.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind};
use tokio::sync::Notify;

use crate::bare::{self, OwnThread, token};
use crate::contender::{Body, Client, Outcome};

const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
     redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[1], '') return 1";

/// One process: a connection for commands and pushes, and its waiter.
#[derive(Clone)]
pub struct WakeAndAsk {
    connection: MultiplexedConnection,
    hash: String,
    key: Arc<str>,
    freed: Arc<Notify>,
}

impl WakeAndAsk {
    /// Subscribed, on that thread.
    pub async fn connect_on(thread: &OwnThread, url: &str, key: &str) -> Self {
        let (url, key) = (url.to_owned(), key.to_owned());
        thread.run(async move { Self::connect(&url, &key).await }).await
    }

    async fn connect(url: &str, key: &str) -> Self {
        let freed = Arc::new(Notify::new());
        let wake = Arc::clone(&freed);
        let push = move |push: PushInfo| {
            if push.kind == PushKind::Message {
                wake.notify_one();
            }
            Ok::<(), redis::aio::SendError>(())
        };
        let mut connection = bare::connect_and_listen(url, push).await;
        connection.subscribe(key).await.unwrap();
        let mut load = redis::cmd("SCRIPT");
        let hash = load.arg("LOAD").arg(RELEASE).query_async(&mut connection).await.unwrap();
        Self { connection, hash, key: key.into(), freed }
    }

    /// Asks, and asks again whenever the lock has been freed, or after a while in case that was
    /// missed.
    pub async fn acquire(&mut self) -> String {
        let token = token();
        loop {
            let mut set = redis::cmd("SET");
            set.arg(&*self.key).arg(&token).arg("NX").arg("PX").arg(30_000);
            let is_mine = set.query_async::<bool>(&mut self.connection).await.unwrap();
            if is_mine {
                return token;
            }
            let _ = tokio::time::timeout(Duration::from_secs(1), self.freed.notified()).await;
        }
    }

    /// Deletes the lock, and publishes that it is free.
    pub async fn release(&mut self, token: &str) {
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.hash).arg(1).arg(&*self.key).arg(token);
        assert_eq!(release.query_async::<u8>(&mut self.connection).await.unwrap(), 1);
    }
}

impl Client for WakeAndAsk {
    /// Its key is the one that it has subscribed to.
    fn locked(&self, _: String, wait: Duration, body: Body) -> Outcome<'_> {
        let mut lock = self.clone();
        Box::pin(async move {
            let token = tokio::time::timeout(wait, lock.acquire()).await.map_err(|_| "busy")?;
            body.await;
            lock.release(&token).await;
            Ok(())
        })
    }
}
