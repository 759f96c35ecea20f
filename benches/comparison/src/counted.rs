//! Locks that several hold at once: ours, Redisson's ways written by hand, the same scripts again
//! and again, and the one peer that has both.
//!
//! Redisson's semaphore is a number: a script lowers it where it is above zero, a release raises it
//! and publishes that it has. All processes with waiters hear that, and each of them lets as many
//! try again. Its lock for readers is a hash with a field and a key for each of them. A process of
//! ours by hand stays subscribed, which spares it the subscription of each first waiter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use distributed_lock_core::{
    DistributedReaderWriterLock, DistributedSemaphore, LockHandle, ReaderWriterLockProvider,
    SemaphoreProvider,
};
use distributed_lock_redis::RedisLockProvider;
use kit::bare::{connect_and_listen, token};
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use redlocked::LockManager;
use tokio::sync::Semaphore;

use crate::by_hand::in_words;
use crate::contender::{Body, Client, Clients, Kind, Outcome, TTL};

/// How many may be inside of the lock with permits.
pub const PERMITS: u32 = 5;

pub const READERS: &str = "redlocked, shared";
pub const OURS: &str = "redlocked, permits = 5";
pub const REDISSON: &str = "Redisson's way, by hand";
pub const POLL: &str = "the same scripts, again every 50 ms";
const DISTRIBUTED: &str = "distributed-lock 0.2.0";

const PAUSE: Duration = Duration::from_millis(50);

/// Where the processes by hand publish what they have released.
const CHANNEL: &str = "by-hand:released";

/// A lock, as its readers and its writers take it, or as all that want a permit do.
pub struct Way {
    pub name: &'static str,
    pub kind: Kind,
    pub many: Clients,
    /// None where there are only permits.
    pub writer: Option<Arc<dyn Client>>,
}

/// With so many processes each.
pub async fn readers(url: &str, processes: usize) -> Vec<Way> {
    let mut ways =
        [(READERS, Kind::Ours), (REDISSON, Kind::Peer), (POLL, Kind::Article), (DISTRIBUTED, Kind::Peer)]
            .map(|(name, kind)| Way { name, kind, many: Clients::new(), writer: None });
    for _ in 0..processes {
        let locks = LockManager::connect(url).await.unwrap();
        ways[0].many.push(Arc::new(Ours(locks.clone(), Wants::ToRead)));
        ways[0].writer = Some(Arc::new(Ours(locks, Wants::ToWrite)));
        for (way, pause) in [(1, None), (2, Some(PAUSE))] {
            let process = Process::connect(url, pause).await;
            ways[way].many.push(process.with(READ, END_READ).await);
            ways[way].writer = Some(process.with(WRITE, END_WRITE).await);
        }
        let provider = Arc::new(RedisLockProvider::new(url).await.unwrap());
        ways[3].many.push(Arc::new(Theirs(Arc::clone(&provider), Wants::ToRead)));
        ways[3].writer = Some(Arc::new(Theirs(provider, Wants::ToWrite)));
    }
    ways.into()
}

/// With so many processes each.
pub async fn permits(url: &str, processes: usize) -> Vec<Way> {
    let mut ways =
        [(OURS, Kind::Ours), (REDISSON, Kind::Peer), (POLL, Kind::Article), (DISTRIBUTED, Kind::Peer)]
            .map(|(name, kind)| Way { name, kind, many: Clients::new(), writer: None });
    for _ in 0..processes {
        ways[0].many.push(Arc::new(Ours(LockManager::connect(url).await.unwrap(), Wants::APermit)));
        for (way, pause) in [(1, None), (2, Some(PAUSE))] {
            let process = Process::connect(url, pause).await;
            ways[way].many.push(process.with(TAKE, GIVE).await);
        }
        let provider = Arc::new(RedisLockProvider::new(url).await.unwrap());
        ways[3].many.push(Arc::new(Theirs(provider, Wants::APermit)));
    }
    ways.into()
}

#[derive(Clone, Copy)]
enum Wants {
    ToRead,
    ToWrite,
    APermit,
}

/// With a fencing token, which is the dearest.
struct Ours(LockManager, Wants);

impl Client for Ours {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        let request = self.0.lock(key).ttl(TTL).wait(wait);
        let request = match self.1 {
            Wants::ToRead => request.shared(),
            Wants::ToWrite => request,
            Wants::APermit => request.permits(PERMITS),
        };
        Box::pin(
            async move { request.run_value(async |_| body.await).await.map_err(|error| error.to_string()) },
        )
    }
}

struct Theirs(Arc<RedisLockProvider>, Wants);

impl Client for Theirs {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            macro_rules! under {
                ($acquire:expr) => {{
                    let handle = $acquire.await.map_err(|error| error.to_string())?;
                    body.await;
                    handle.release().await.map_err(|error| error.to_string())
                }};
            }
            match self.1 {
                Wants::ToRead => under!(self.0.create_reader_writer_lock(&key).acquire_read(Some(wait))),
                Wants::ToWrite => under!(self.0.create_reader_writer_lock(&key).acquire_write(Some(wait))),
                Wants::APermit => under!(self.0.create_semaphore(&key, PERMITS).acquire(Some(wait))),
            }
        })
    }
}

// KEYS[1] the lock   KEYS[2] the channel   ARGV[1] ttl in ms   ARGV[2] who
// An acquire returns -1, or for how long it is taken at most. A release publishes how many may try.

const TAKE: &str = "local value = redis.call('get', KEYS[1]) \
     if value ~= false and tonumber(value) >= 1 then redis.call('decrby', KEYS[1], 1) return -1 end \
     return 30000";

const GIVE: &str = "redis.call('publish', KEYS[2], redis.call('incrby', KEYS[1], 1)) return 1";

const READ: &str = "local mode = redis.call('hget', KEYS[1], 'mode') \
     local prefix = '{' .. KEYS[1] .. '}:' .. ARGV[2] .. ':rwlock_timeout:' \
     if mode == false then \
       redis.call('hset', KEYS[1], 'mode', 'read') redis.call('hset', KEYS[1], ARGV[2], 1) \
       redis.call('set', prefix .. 1, 1) redis.call('pexpire', prefix .. 1, ARGV[1]) \
       redis.call('pexpire', KEYS[1], ARGV[1]) return -1 end \
     if mode == 'read' then \
       local key = prefix .. redis.call('hincrby', KEYS[1], ARGV[2], 1) \
       redis.call('set', key, 1) redis.call('pexpire', key, ARGV[1]) \
       redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), ARGV[1])) return -1 end \
     return redis.call('pttl', KEYS[1])";

const END_READ: &str = "if redis.call('hget', KEYS[1], 'mode') == false then redis.call('publish', KEYS[2], 1) return 1 end \
     if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end \
     local counter = redis.call('hincrby', KEYS[1], ARGV[2], -1) \
     if counter == 0 then redis.call('hdel', KEYS[1], ARGV[2]) end \
     redis.call('del', '{' .. KEYS[1] .. '}:' .. ARGV[2] .. ':rwlock_timeout:' .. (counter + 1)) \
     if redis.call('hlen', KEYS[1]) > 1 then \
       local longest = -3 \
       for _, who in ipairs(redis.call('hkeys', KEYS[1])) do \
         local counter = tonumber(redis.call('hget', KEYS[1], who)) \
         if type(counter) == 'number' then \
           for i = counter, 1, -1 do \
             longest = math.max(redis.call('pttl', '{' .. KEYS[1] .. '}:' .. who .. ':rwlock_timeout:' .. i), longest) \
           end end end \
       if longest > 0 then redis.call('pexpire', KEYS[1], longest) return 1 end end \
     redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], 1) return 1";

const WRITE: &str = "if redis.call('hget', KEYS[1], 'mode') == false then \
       redis.call('hset', KEYS[1], 'mode', 'write') redis.call('hset', KEYS[1], ARGV[2], 1) \
       redis.call('pexpire', KEYS[1], ARGV[1]) return -1 end \
     return redis.call('pttl', KEYS[1])";

const END_WRITE: &str = "if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end \
     redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], 1000000) return 1";

/// One process by hand: a connection, and its waiters.
struct Process {
    connection: MultiplexedConnection,
    waiters: Arc<Waiters>,
    /// Between two tries; `None`: they are woken.
    pause: Option<Duration>,
}

struct Waiters {
    count: AtomicUsize,
    /// One for each waiter that may try.
    woken: Semaphore,
}

impl Process {
    async fn connect(url: &str, pause: Option<Duration>) -> Self {
        let waiters = Arc::new(Waiters { count: AtomicUsize::new(0), woken: Semaphore::new(0) });
        let told = Arc::clone(&waiters);
        let listen = move |push: PushInfo| {
            if let (PushKind::Message, [_, Value::BulkString(many)]) = (push.kind, push.data.as_slice()) {
                let many = std::str::from_utf8(many).ok().and_then(|many| many.parse().ok()).unwrap_or(1);
                told.woken.add_permits(told.count.load(Ordering::SeqCst).min(many));
            }
            Ok::<(), redis::aio::SendError>(())
        };
        let mut connection = connect_and_listen(url, listen).await;
        if pause.is_none() {
            connection.subscribe(CHANNEL).await.unwrap();
        }
        Self { connection, waiters, pause }
    }

    async fn with(&self, acquire: &str, release: &str) -> Arc<dyn Client> {
        let mut connection = self.connection.clone();
        let mut hashes = Vec::new();
        for script in [acquire, release] {
            let mut load = redis::cmd("SCRIPT");
            hashes.push(load.arg("LOAD").arg(script).query_async(&mut connection).await.unwrap());
        }
        let [acquire, release] = hashes.try_into().unwrap();
        Arc::new(ByHand {
            connection,
            waiters: Arc::clone(&self.waiters),
            pause: self.pause,
            acquire,
            release,
        })
    }
}

struct ByHand {
    connection: MultiplexedConnection,
    waiters: Arc<Waiters>,
    pause: Option<Duration>,
    acquire: String,
    release: String,
}

impl ByHand {
    async fn call(&self, script: &str, key: &str, who: &str) -> Result<i64, String> {
        let mut call = redis::cmd("EVALSHA");
        call.arg(script).arg(2).arg(key).arg(CHANNEL).arg(u64::try_from(TTL.as_millis()).unwrap()).arg(who);
        call.query_async(&mut self.connection.clone()).await.map_err(in_words)
    }

    async fn acquire(&self, key: &str, who: &str, wait: Duration) -> Result<(), String> {
        let ends = Instant::now() + wait;
        if self.call(&self.acquire, key, who).await? < 0 {
            return Ok(());
        }
        let _waits = Waits::among(&self.waiters);
        loop {
            let taken = self.call(&self.acquire, key, who).await?;
            let left = ends.saturating_duration_since(Instant::now());
            let Ok(taken) = u64::try_from(taken) else { return Ok(()) };
            if left.is_zero() {
                return Err("busy".to_owned());
            }
            if let Some(pause) = self.pause {
                tokio::time::sleep(pause.min(left)).await;
                continue;
            }
            let taken = left.min(Duration::from_millis(taken));
            if let Ok(Ok(woken)) = tokio::time::timeout(taken, self.waiters.woken.acquire()).await {
                woken.forget();
            }
        }
    }
}

/// One of them, until it is dropped.
struct Waits<'a>(&'a Waiters);

impl<'a> Waits<'a> {
    fn among(waiters: &'a Waiters) -> Self {
        waiters.count.fetch_add(1, Ordering::SeqCst);
        Self(waiters)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Client for ByHand {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let who = token();
            self.acquire(&key, &who, wait).await?;
            body.await;
            match self.call(&self.release, &key, &who).await? {
                1 => Ok(()),
                _ => Err("lost".to_owned()),
            }
        })
    }
}
