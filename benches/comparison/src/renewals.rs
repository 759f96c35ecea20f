//! Locks that are held for long: the cost of their renewal for this process and the server, and the
//! memory of each.
//!
//! Each figure comes from a fresh process with a server of its own, because memory that was used
//! before hides the growth. Every lock is renewed once in a third of its ttl, so a round is as long
//! as that. Linux only.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use distributed_lock_core::{DistributedLock, LockProvider};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline};
use redlocked::LockManager;
use serde_json::{Value, json};

use crate::contender::Kind;
use crate::report::Report;
use crate::series::{Series, Table, find, whole};
use crate::workload::{Extent, Servers};
use kit::RedisServer;
use kit::bare::connect;
use kit::figures::{own_cpu, server_cpu, status};
use kit::load::runtime;
use kit::weight::{Weight, What};

/// This program asks itself to hold locks with this variable: the order, in JSON.
const CHILD: &str = "REDLOCKED_BENCHMARKS_HOLD";

const BY_HAND: &str = "compare-and-PEXPIRE, 1000 in a pipeline";
const OURS: &str = "redlocked";
const RLOCK: &str = "rlock 0.2.0";
const DISTRIBUTED: &str = "distributed-lock 0.2.0";

const MEMORY: &str = "bytes of memory a lock";
const SERVER: &str = "server, % of a core";
const LOST: &str = "lost";

/// Not a contender: the memory of a waiter.
const WAITER: &str = "a waiter";
const WAITERS: u64 = 10_000;

/// The others do not renew by themselves.
const CONTENDERS: [(&str, Kind); 4] =
    [(BY_HAND, Kind::Reference), (OURS, Kind::Ours), (RLOCK, Kind::Peer), (DISTRIBUTED, Kind::Peer)];

/// The locks that are taken together.
const AT_ONCE: usize = 10;

pub fn measure(_: &Servers, extent: Extent, report: &mut Report) {
    if status("VmRSS").is_none() {
        report.left_out("renewals", "there is no `/proc/self/status` here");
        return;
    }
    // As many renewals per second as ten times as many locks with ten times the ttl.
    let ttl = Duration::from_secs(extent.of(30, 3));
    let count = extent.of(100_000, 10_000);
    let many = u64::try_from(count).unwrap();
    let rounds = 2;
    let series = CONTENDERS.map(|contender| run(contender, many, ttl, rounds).finish());
    let table = Table {
        workload: "renewals",
        title: &format!("{} locks held, ttl {ttl:?}, each renewed once in {:?}", whole(count), ttl / 3),
        unit: "% of a core",
        more_is_better: false,
        references: &[(BY_HAND, "by hand")],
        more: &[],
    };
    report.add(&table, &series);
    // Other figures than those of the full run would not be compared with their aims.
    if extent.quick {
        return;
    }
    let ours = find(&series, OURS);
    let cost = |what| ours?.costs.iter().find(|(name, _)| *name == what).and_then(|(_, value)| *value);
    let server = |name: &str| {
        let one = find(&series, name)?;
        one.costs.iter().find(|(what, _)| *what == SERVER).and_then(|(_, value)| *value)
    };
    report
        .target("100,000 held, server", server(OURS).zip(server(RLOCK)).map(|(ours, theirs)| ours / theirs));
    report.target("100,000 held, CPU", ours.and_then(Series::middle));
    report.target("100,000 held, memory", cost(MEMORY));
    report.target("100,000 held, lost", cost(LOST));
    let weighed = run((WAITER, Kind::Ours), WAITERS, ttl, 0).said();
    report.target("10,000 waiters, memory", weighed.and_then(|said| said["bytes"].as_f64()));
}

struct Running {
    contender: (&'static str, Kind),
    process: Child,
    _server: RedisServer,
}

fn run(contender: (&'static str, Kind), count: u64, ttl: Duration, rounds: u32) -> Running {
    let server = RedisServer::start();
    let order = json!({
        "name": contender.0, "count": count, "rounds": rounds, "url": server.url(),
        "ttl": u64::try_from(ttl.as_millis()).unwrap(),
    });
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.env(CHILD, order.to_string()).stdout(Stdio::piped());
    Running { contender, process: child.spawn().unwrap(), _server: server }
}

impl Running {
    /// What it has printed; nothing when it has failed.
    fn said(self) -> Option<Value> {
        let output = self.process.wait_with_output().unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    fn finish(self) -> Series {
        let mut series = Series::new(self.contender.0, self.contender.1);
        let Some(said) = self.said() else { return series };
        let shares = said["shares"].as_array().unwrap();
        series.rounds = shares.iter().map(|share| Some(share.as_f64().unwrap() * 100.0)).collect();
        for (what, name) in [(MEMORY, "bytes"), (SERVER, "server"), ("kB/s sent", "sent"), (LOST, "lost")] {
            series.cost(what, said[name].as_f64());
        }
        series
    }
}

// In a process of its own -------------------------------------------------------------------------

/// True when this process was started to hold locks; it has done so then.
pub fn was_ordered() -> bool {
    let Ok(order) = std::env::var(CHILD) else {
        return false;
    };
    let order: Value = serde_json::from_str(&order).unwrap();
    let number = |name: &str| order[name].as_u64().unwrap();
    let text = |name: &str| order[name].as_str().unwrap();
    let hold = RenewalLoad {
        count: number("count"),
        ttl: Duration::from_millis(number("ttl")),
        rounds: number("rounds"),
        url: text("url").to_owned(),
    };
    if text("name") == WAITER {
        let weight = Weight::of(What::WaitersForOneKey, usize::try_from(hold.count).unwrap(), &hold.url);
        println!("{}", json!({ "bytes": weight.map(|weight| weight.bytes_each) }));
        return true;
    }
    println!("{}", runtime(1).block_on(hold.by(text("name"))));
    true
}

struct RenewalLoad {
    count: u64,
    ttl: Duration,
    rounds: u64,
    url: String,
}

fn key(number: u64) -> String {
    format!("a-key-of-usual-length:{number:08}")
}

impl RenewalLoad {
    async fn by(&self, name: &str) -> Value {
        match name {
            OURS => self.ours().await,
            RLOCK => self.rlock().await,
            DISTRIBUTED => self.distributed_lock().await,
            _ => self.by_hand().await,
        }
    }

    async fn ours(&self) -> Value {
        let locks = LockManager::connect(&self.url).await.unwrap();
        let ttl = self.ttl;
        let take = move |key: String| {
            // A stalled machine is no reason to fail.
            let acquire = locks.lock(key).ttl(ttl).wait(ttl).acquire();
            async move { acquire.await.unwrap() }
        };
        let (mut said, guards) = self.watch_while(take).await;
        // Losses that the library reports count, too.
        let lost = guards.iter().filter(|guard| !guard.is_held()).count().try_into().unwrap();
        said["lost"] = said["lost"].as_u64().unwrap().max(lost).into();
        said
    }

    async fn rlock(&self) -> Value {
        let locks = rlock::async_lock::RLock::new(&*self.url).await.unwrap();
        let options = rlock::AcquireOptions::builder().ttl(self.ttl).renew_interval(Some(Some(self.ttl / 3)));
        let options = options.build().unwrap();
        let take = move |key: String| {
            let (locks, options) = (locks.clone(), options.clone());
            async move { locks.acquire_mutex_with_options(key, options).await.unwrap() }
        };
        self.watch_while(take).await.0
    }

    async fn distributed_lock(&self) -> Value {
        let locks = distributed_lock_redis::RedisLockProvider::builder().url(&self.url).expiry(self.ttl);
        let locks = locks.extension_cadence(self.ttl / 3).min_validity(self.ttl / 2).build().await.unwrap();
        let locks = std::sync::Arc::new(locks);
        let take = move |key: String| {
            let lock = locks.create_lock(&key);
            async move { lock.try_acquire().await.unwrap().unwrap() }
        };
        self.watch_while(take).await.0
    }

    /// The cheapest renewal: it has no timer for each lock, and notifies no caller of a loss.
    async fn by_hand(&self) -> Value {
        const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
             return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
        let mut connection = connect(&self.url).await;
        let hash: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(RENEW).query_async(&mut connection).await.unwrap();
        let ttl = u64::try_from(self.ttl.as_millis()).unwrap();
        let token = |number: u64| format!("{number:022}@a-host:{}", std::process::id());
        let numbers: Vec<u64> = (0..self.count).collect();
        for thousand in numbers.chunks(1000) {
            send(&mut connection, thousand, &|number| {
                let mut set = redis::cmd("SET");
                set.arg(key(number)).arg(token(number)).arg("NX").arg("PX").arg(ttl);
                set
            })
            .await;
        }
        let pipelines = u32::try_from(numbers.len().div_ceil(1000)).unwrap();
        let mut every = tokio::time::interval(self.ttl / 3 / pipelines);
        let task = async {
            for thousand in numbers.chunks(1000).cycle() {
                every.tick().await;
                send(&mut connection, thousand, &|number| {
                    let mut renew = redis::cmd("EVALSHA");
                    renew.arg(&hash).arg(1).arg(key(number)).arg(token(number)).arg(ttl);
                    renew
                })
                .await;
            }
        };
        tokio::select! {
            said = self.watch() => said,
            () = task => Value::Null,
        }
    }

    /// Takes all locks, and measures while they are held.
    async fn watch_while<F>(&self, take: impl Fn(String) -> F) -> (Value, Vec<F::Output>)
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let first = take("warm-up".to_owned()).await;
        let before = status("VmRSS").unwrap();
        let mut held = Vec::new();
        let numbers: Vec<u64> = (0..self.count).collect();
        // Evenly, as a service would take them: taken at once, they would be renewed at once, which
        // costs less.
        let pause = self.ttl / 3 / u32::try_from(numbers.len().div_ceil(AT_ONCE)).unwrap();
        let mut next = tokio::time::Instant::now();
        for some in numbers.chunks(AT_ONCE) {
            next += pause;
            tokio::time::sleep_until(next).await;
            let tasks: Vec<_> = some.iter().map(|&number| tokio::spawn(take(key(number)))).collect();
            for task in tasks {
                held.push(task.await.unwrap());
            }
        }
        // Checks that come soon after an acquire are done by now.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let kib = status("VmRSS").unwrap().saturating_sub(before);
        drop(first);
        let mut said = self.watch().await;
        // Including the memory of their renewal.
        let kib = said["resident"].as_u64().unwrap().saturating_sub(before).max(kib);
        said["bytes"] = (kib * 1024 / self.count).into();
        (said, held)
    }

    async fn watch(&self) -> Value {
        let mut client = redis::Client::open(&*self.url).unwrap().get_connection().unwrap();
        let lasts = self.ttl / 3;
        let mut shares = Vec::new();
        let (server, before) = (server_cpu(&mut client), received(&mut client));
        let mut start = tokio::time::Instant::now();
        let began = start;
        for _ in 0..self.rounds {
            let (used, until) = (own_cpu(), start + lasts);
            tokio::time::sleep_until(until).await;
            let now = tokio::time::Instant::now();
            shares.push(own_cpu().saturating_sub(used).as_secs_f64() / (now - start).as_secs_f64());
            start = now;
        }
        let seconds = (start - began).as_secs_f64();
        let server = server_cpu(&mut client).saturating_sub(server).as_secs_f64() / seconds;
        let sent = (received(&mut client) - before) / seconds;
        // Before the search below takes memory of its own.
        let resident = status("VmRSS").unwrap();
        let mut left = 0_u64;
        let mut scan = redis::cmd("SCAN");
        scan.cursor_arg(0).arg("MATCH").arg("*a-key-of-usual-length:*").arg("COUNT").arg(10_000);
        for found in scan.iter::<String>(&mut client).unwrap() {
            left += u64::from(!found.unwrap().contains('%'));
        }
        json!({
            "shares": shares, "server": server * 100.0, "sent": sent / 1e3, "resident": resident,
            "lost": self.count.saturating_sub(left),
        })
    }
}

async fn send(connection: &mut MultiplexedConnection, numbers: &[u64], command: &dyn Fn(u64) -> Cmd) {
    let mut pipeline = Pipeline::with_capacity(numbers.len());
    for &number in numbers {
        pipeline.add_command(command(number)).ignore();
    }
    pipeline.query_async::<()>(connection).await.unwrap();
}

/// Bytes that the server has received.
fn received(client: &mut redis::Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("stats").query(client).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_net_input_bytes:")).unwrap();
    line.trim().parse().unwrap()
}
