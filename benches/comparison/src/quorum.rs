//! Redlock on five servers: an uncontended lock, while all are well, and while two are stopped or
//! killed.
//!
//! All contenders of all three scenarios take turns, so that the cost of a fault is a ratio within
//! a round.

use std::pin::Pin;
use std::time::{Duration, Instant};

use distributed_lock_core::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::RedisLockProvider;
use redlocked::LockManager;
use tokio::runtime::Runtime;

use crate::contender::Kind;
use crate::report::Report;
use crate::series::{Series, Table, find};
use crate::workload::{Extent, Servers};
use kit::Quorum;
use kit::bare::OwnThread;
use kit::bare_quorum::BareQuorum;
use kit::figures::percentile;
use kit::{LIMIT, RedisServer};

const NODES: usize = 5;

/// The minority that is stopped or killed.
const FAULTY: [usize; 2] = [1, 3];

/// Short, because servers without persistence vote only when they have been up for one ttl.
const TTL: Duration = Duration::from_secs(3);

const IN_A_ROUND: usize = 25;

const BARE: &str = "both commands to all at once, three answers decide";

const OURS: &str = "redlocked";

const SCENARIOS: [&str; 3] = ["all well", "2 stopped", "2 killed"];

/// Acquires and releases the lock of this name.
type Lock<'a> = Box<dyn Fn(String) -> Pin<Box<dyn Future<Output = Result<(), String>> + 'a>> + 'a>;

struct Contender<'a> {
    scenario: usize,
    lock: Lock<'a>,
    series: Series,
    /// How long it may keep the others waiting.
    patience: Duration,
    /// The last time that it failed.
    failed: Option<String>,
}

pub fn measure(_: &Servers, extent: Extent, report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let thread = OwnThread::start();
    let mut quorums = SCENARIOS.map(|_| Quorum::forgetful(NODES));
    let mut contenders = Vec::new();
    for (scenario, quorum) in quorums.iter().enumerate() {
        let all = runtime.block_on(connect(quorum, &thread));
        contenders.extend(all.map(|(name, kind, lock)| Contender {
            scenario,
            lock,
            series: Series::new(name, kind),
            patience: Duration::from_secs(extent.of(8, 3)),
            failed: None,
        }));
    }
    for node in FAULTY {
        quorums[1].servers[node].pause();
        quorums[2].servers[node].kill();
    }
    for round in 0..extent.of(250, 30) {
        let turns = contenders.len();
        for turn in 0..turns {
            contenders[(turn + round) % turns].take_turn(&runtime);
            // The late answers are read before the next contender's turn.
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    let left = contenders.iter().map(|one| left_behind(&runtime, one, &quorums[one.scenario]));
    let left: Vec<f64> = left.collect();
    tell(contenders, &left, report);
}

impl Contender<'_> {
    fn take_turn(&mut self, runtime: &Runtime) {
        let began = Instant::now();
        let mut times = Vec::new();
        while times.len() <= IN_A_ROUND && !self.patience.is_zero() {
            let start = Instant::now();
            let done = runtime.block_on((self.lock)("quorum".to_owned()));
            let lasted = start.elapsed();
            if lasted > STUCK {
                self.patience = self.patience.saturating_sub(lasted);
            }
            match done {
                Ok(()) => times.push(lasted.as_secs_f64() * 1e3),
                Err(why) => {
                    self.failed = Some(why);
                    break;
                }
            }
            // One lock that takes this long is enough for a round.
            if began.elapsed() > Duration::from_secs(1) {
                break;
            }
        }
        // The first lock finds cold caches and a sleeping thread.
        let from = usize::from(times.len() > 1);
        self.series.add_round(&times[from..]);
    }
}

/// Longer than any lock that does not wait for a silent server.
const STUCK: Duration = Duration::from_millis(100);

async fn connect<'a>(quorum: &Quorum, thread: &'a OwnThread) -> [(&'static str, Kind, Lock<'a>); 4] {
    let urls: Vec<String> = quorum.servers.iter().map(RedisServer::url).collect();
    let bare = std::rc::Rc::new(BareQuorum::connect_on(thread, urls.clone()).await);
    let ours = ready(quorum).await;
    let rslock = rslock::LockManager::new(urls.clone());
    let distributed = RedisLockProvider::builder().urls(&urls).expiry(TTL).extension_cadence(TTL / 3);
    let distributed = std::sync::Arc::new(distributed.min_validity(TTL / 2).build().await.unwrap());
    [
        (
            BARE,
            Kind::Reference,
            Box::new(move |key| {
                let bare = bare.clone();
                Box::pin(async move {
                    bare.pair(&key).await;
                    Ok(())
                })
            }),
        ),
        (
            OURS,
            Kind::Ours,
            Box::new(move |key| {
                let request = ours.lock(key).ttl(TTL);
                Box::pin(async move {
                    let guard = request.acquire().await.map_err(in_words)?;
                    guard.release().await.map(drop).map_err(in_words)
                })
            }),
        ),
        (
            "rslock 0.10.0",
            Kind::Peer,
            Box::new(move |key| {
                let locks = rslock.clone();
                Box::pin(async move {
                    let lock = locks.lock(key.as_str(), TTL).await.map_err(in_words)?;
                    locks.unlock(&lock).await;
                    Ok(())
                })
            }),
        ),
        (
            "distributed-lock 0.2.0",
            Kind::Peer,
            Box::new(move |key| {
                let locks = distributed.clone();
                Box::pin(async move {
                    let handle = locks.create_lock(&key).try_acquire().await.map_err(in_words)?;
                    handle.ok_or("busy")?.release().await.map_err(in_words)
                })
            }),
        ),
    ]
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Connected from the callers' runtime; all nodes vote.
async fn ready(quorum: &Quorum) -> LockManager {
    let locks = quorum.builder().max_ttl(TTL).connect().await.unwrap();
    let start = Instant::now();
    loop {
        let guard = locks.lock("warm-up").ttl(TTL).wait(LIMIT).acquire().await;
        let copies = quorum.copies("lock:warm-up");
        if let Ok(guard) = guard {
            let _ = guard.release().await;
        }
        if copies == NODES {
            return locks;
        }
        assert!(start.elapsed() < LIMIT, "not all nodes vote");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many keys stay on the servers for each lock that was released.
fn left_behind(runtime: &Runtime, contender: &Contender<'_>, quorum: &Quorum) -> f64 {
    const LOCKS: u32 = 5;
    let stem = kit::unique("left");
    for number in 0..LOCKS {
        let _ = runtime.block_on((contender.lock)(format!("{stem}-{number}")));
    }
    // Requests under way arrive.
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
    let well = (0..NODES).filter(|node| contender.scenario == 0 || !FAULTY.contains(node));
    let keys = well.flat_map(|node| quorum.servers[node].keys()).filter(|key| key.contains(&stem)).count();
    f64::from(u32::try_from(keys).unwrap()) / f64::from(LOCKS)
}

fn tell(contenders: Vec<Contender<'_>>, left: &[f64], report: &mut Report) {
    let p99 = |series: &Series| (!series.all.is_empty()).then(|| percentile(&series.all, 99));
    let mut by_scenario = SCENARIOS.map(|_| Vec::new());
    for (contender, left) in contenders.into_iter().zip(left) {
        let Contender { scenario, mut series, failed, .. } = contender;
        if let Some(why) = failed {
            report.left_out(&format!("{}, with {}", series.name, SCENARIOS[scenario]), &why);
        }
        if scenario == 0 {
            series.cost("keys left behind a lock", Some(*left));
            // Its release does not wait for the servers.
            series.does_less = *left > 0.0;
        }
        by_scenario[scenario].push(series);
    }
    let [mut well, stopped, killed] = by_scenario;
    for one in &mut well {
        for (there, p50, tail) in
            [(&stopped, "2 stopped: p50", "2 stopped: p99"), (&killed, "2 killed: p50", "2 killed: p99")]
        {
            let there = find(there, &one.name);
            one.cost(p50, there.and_then(Series::middle));
            one.cost(tail, there.and_then(p99));
        }
    }
    let table = Table {
        workload: "quorum",
        title: &format!("Redlock on {NODES} servers, all well: acquire and release"),
        unit: "p50 in ms",
        more_is_better: false,
        references: &[(BARE, "bare")],
        more: &[],
    };
    report.add(&table, &well);
    let (ours, hung) = (find(&well, OURS), find(&stopped, OURS));
    let both = ours.zip(find(&well, BARE));
    report.target("quorum of 5", both.and_then(|(ours, bare)| ours.over(bare)));
    let hung = hung.and_then(p99).zip(ours.and_then(p99));
    report.target("quorum of 5, 2 hung", hung.map(|(hung, well)| hung / well));
}
