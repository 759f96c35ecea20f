//! The usual way to wait: a release publishes that the lock is free, and a waiter that receives it asks again.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind};
use tokio::sync::Notify;

use crate::bare::{OwnThread, token};

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
        let info = url.into_connection_info().unwrap();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let info =
            info.set_tcp_settings(TcpSettings::default().set_nodelay(true)).set_redis_settings(settings);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(push);
        let client = Client::open(info).unwrap();
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        connection.subscribe(key).await.unwrap();
        let mut load = redis::cmd("SCRIPT");
        let hash = load.arg("LOAD").arg(RELEASE).query_async(&mut connection).await.unwrap();
        Self { connection, hash, key: key.into(), freed }
    }

    /// Asks, and asks again whenever the lock has been freed, or after a while in case that was missed.
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
