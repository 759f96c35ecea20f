//! A lock written by hand: `SET NX PX`, and a script that compares and deletes. No queue, no
//! renewal, no deadline, no fencing token, and a future that is dropped leaves its lock behind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion};
use tokio::sync::oneshot;

use crate::contender::{self, Body, Outcome, in_words};

/// The lease, in milliseconds.
const PX: u32 = 30_000;

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

/// Makes a connection as the engine's: RESP3, no delay, and no timer for each request.
pub async fn connect(url: &str) -> MultiplexedConnection {
    connect_with(url, AsyncConnectionConfig::new()).await
}

/// [`connect`], with a listener for pushes.
pub async fn connect_and_listen(url: &str, push: impl AsyncPushSender) -> MultiplexedConnection {
    connect_with(url, AsyncConnectionConfig::new().set_push_sender(push)).await
}

async fn connect_with(url: &str, config: AsyncConnectionConfig) -> MultiplexedConnection {
    let info = url.into_connection_info().unwrap();
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true)).set_redis_settings(settings);
    let config = config.set_connection_timeout(None).set_response_timeout(None);
    Client::open(info).unwrap().get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// A connection, and the digest of [`COMPARE_AND_DELETE`].
#[derive(Clone)]
pub struct Bare {
    connection: MultiplexedConnection,
    hash: Arc<str>,
}

impl Bare {
    /// Its connection is driven by the runtime that this is called on.
    pub async fn connect(url: &str) -> Self {
        let mut connection = connect(url).await;
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(COMPARE_AND_DELETE);
        let hash: String = load.query_async(&mut connection).await.unwrap();
        Self { connection, hash: hash.into() }
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
        set.arg(key).arg(&token).arg("NX").arg("PX").arg(PX);
        set.query_async::<bool>(&mut self.connection).await.unwrap().then_some(token)
    }

    /// Panics when the lock has another token.
    pub async fn release(&mut self, key: &str, token: &str) {
        let mut release = redis::cmd("EVALSHA");
        release.arg(&*self.hash).arg(1).arg(key).arg(token);
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

impl contender::Client for Bare {
    fn locked(&self, key: String, _: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let mut bare = self.clone();
            let token = bare.acquire(&key).await.ok_or("busy")?;
            body.await;
            bare.release(&key, &token).await;
            Ok(())
        })
    }
}

/// The two commands on a connection that blocks.
pub struct BareSync {
    connection: Mutex<redis::Connection>,
    hash: String,
}

impl BareSync {
    /// Connected, and the script is loaded.
    pub fn connect(url: &str) -> Self {
        let mut connection = Client::open(url).unwrap().get_connection().unwrap();
        let mut load = redis::cmd("SCRIPT");
        let hash = load.arg("LOAD").arg(COMPARE_AND_DELETE).query(&mut connection).unwrap();
        Self { connection: Mutex::new(connection), hash }
    }

    /// Acquire and release of a lock that is free.
    pub fn pair(&self, key: &str) {
        let token = token();
        let mut connection = self.connection.lock().unwrap();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&token).arg("NX").arg("PX").arg(PX);
        assert!(set.query::<bool>(&mut *connection).unwrap());
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.hash).arg(1).arg(key).arg(token);
        assert_eq!(release.query::<u8>(&mut *connection), Ok(1));
    }
}

/// One bare round trip for each lock, which is none.
#[derive(Clone)]
pub struct Ping(MultiplexedConnection);

impl Ping {
    /// Its connection is driven by the runtime that this is called on.
    pub async fn connect(url: &str) -> Self {
        Self(connect(url).await)
    }
}

impl contender::Client for Ping {
    fn locked(&self, _: String, _: Duration, body: Body) -> Outcome<'_> {
        let mut connection = self.0.clone();
        Box::pin(async move {
            let _: String = redis::cmd("PING").query_async(&mut connection).await.map_err(in_words)?;
            body.await;
            Ok(())
        })
    }
}

/// As long as ours, and cheaper.
pub fn token() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:022}@a-host:{}", NEXT.fetch_add(1, Ordering::Relaxed), std::process::id())
}
