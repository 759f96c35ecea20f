//! A lock written by hand: `SET NX PX`, and a script that compares and deletes. No queue, no renewal,
//! no deadline, no fencing token, and a future that is dropped leaves its lock behind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion};
use tokio::sync::oneshot;

/// Deletes a lock when it still has this token.
pub const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// A runtime on a thread of its own. It ends when it is dropped.
pub struct OwnThread {
    handle: tokio::runtime::Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl OwnThread {
    /// The runtime is ready when this returns.
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || drop(runtime.block_on(stopped)));
        Self { handle, stop: Some(stop), thread: Some(thread) }
    }

    /// The output of a future that runs there.
    pub async fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.handle.spawn(future).await.unwrap()
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The same kind of connection as the engine's: RESP3, no delay, and no timer for each request.
pub async fn connect(url: &str) -> MultiplexedConnection {
    let info = url.into_connection_info().unwrap();
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true)).set_redis_settings(settings);
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    Client::open(info).unwrap().get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// A connection, and the digest of [`COMPARE_AND_DELETE`].
#[derive(Clone)]
pub struct Bare {
    connection: MultiplexedConnection,
    hash: String,
}

impl Bare {
    /// Its connection is driven by the runtime that this is called on.
    pub async fn connect(url: &str) -> Self {
        let mut connection = connect(url).await;
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(COMPARE_AND_DELETE);
        let hash = load.query_async(&mut connection).await.unwrap();
        Self { connection, hash }
    }

    /// Its connection is driven by that thread.
    pub async fn connect_on(thread: &OwnThread, url: &str) -> Self {
        let url = url.to_owned();
        thread.run(async move { Self::connect(&url).await }).await
    }

    /// One try: the token, or `None` when the lock is held.
    pub async fn acquire(&mut self, key: &str) -> Option<String> {
        let token = token();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&token).arg("NX").arg("PX").arg(30_000);
        set.query_async::<bool>(&mut self.connection).await.unwrap().then_some(token)
    }

    /// Panics when the lock has another token.
    pub async fn release(&mut self, key: &str, token: &str) {
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.hash).arg(1).arg(key).arg(token);
        assert_eq!(release.query_async::<u8>(&mut self.connection).await.unwrap(), 1);
    }

    /// Acquire and release of a lock that is free.
    pub async fn pair(&mut self, key: &str) {
        let token = self.acquire(key).await.unwrap();
        self.release(key, &token).await;
    }

    /// One bare round trip.
    pub async fn ping(&mut self) {
        let _: String = redis::cmd("PING").query_async(&mut self.connection).await.unwrap();
    }
}

/// As long as ours, and cheaper.
pub fn token() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:022}@a-host:{}", NEXT.fetch_add(1, Ordering::Relaxed), std::process::id())
}
