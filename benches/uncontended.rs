//! An uncontended lock: acquire and release, one after the other and many at once, beside a lock that is written by
//! hand.
//!
//! ```text
//! cargo bench --bench uncontended
//! ```
//!
//! The contenders take turns in small rounds, so that other work of the machine hits all of them. Read the ratios: the
//! times depend on the machine.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::time::{Duration, Instant};

use kit::RedisServer;
use kit::bare::{Bare, OwnThread};
use kit::figures::{median, micros, own_cpu, percentile, rounds, server_cpu, table};
use redlocked::LockManager;
use tokio::runtime::Runtime;

fn main() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let thread = OwnThread::start();
    let bare = runtime.block_on(Bare::connect(&server.url()));
    let bare_apart = runtime.block_on(Bare::connect_on(&thread, &server.url()));
    let locks = LockManager::connect_blocking(&server.url()).unwrap();
    let memory = LockManager::connect_blocking("memory://uncontended").unwrap();

    let mut contenders = [
        Contender::new(BARE_APART, Way::Bare(bare_apart)),
        Contender::new(BARE, Way::Bare(bare)),
        Contender::new("redlocked, async", Way::Async(locks.clone())),
        Contender::new("redlocked, sync", Way::Sync(locks)),
        Contender::new("redlocked, async, memory://", Way::Async(memory)),
    ];
    one_at_a_time(&runtime, &mut contenders);
    contenders.iter_mut().for_each(Contender::forget);
    many_at_once(&server, &runtime, &mut contenders[..3]);
}

const BARE: &str = "bare pair, its connection on the caller's runtime";
const BARE_APART: &str = "bare pair, its connection on a thread of its own";

enum Way {
    Bare(Bare),
    Async(LockManager),
    Sync(LockManager),
}

struct Contender {
    name: &'static str,
    way: Way,
    /// One lock each, in microseconds.
    times: Vec<f64>,
    /// The middle one of each round.
    middles: Vec<f64>,
    loads: Vec<Load>,
}

/// One round of many at once: microseconds for each lock.
struct Load {
    elapsed: f64,
    own_cpu: f64,
    server_cpu: f64,
}

impl Contender {
    fn new(name: &'static str, way: Way) -> Self {
        Self { name, way, times: Vec::new(), middles: Vec::new(), loads: Vec::new() }
    }

    fn forget(&mut self) {
        self.times.clear();
        self.middles.clear();
        self.loads.clear();
    }

    /// The median over rounds of `value`, relative to the same round of `other`.
    fn relative_to(&self, other: &Self, value: impl Fn(&Load) -> f64) -> f64 {
        let ratios: Vec<f64> =
            self.loads.iter().zip(&other.loads).map(|(ours, theirs)| value(ours) / value(theirs)).collect();
        median(&ratios)
    }
}

fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

// One at a time ------------------------------------------------------------------------------------------------

fn one_at_a_time(runtime: &Runtime, contenders: &mut [Contender]) {
    const IN_A_ROUND: usize = 25;
    for round in 0..rounds(400, 4) {
        for turn in 0..contenders.len() {
            let next = (turn + round) % contenders.len();
            let contender = &mut contenders[next];
            let times: Vec<f64> = (0..=IN_A_ROUND).map(|_| one(runtime, &mut contender.way)).collect();
            // The first lock finds cold caches and a sleeping thread.
            contender.middles.push(median(&times[1..]));
            contender.times.extend(&times[1..]);
        }
    }
    let (apart, same) = (contenders[0].middles.clone(), contenders[1].middles.clone());
    let relative = |middles: &[f64], to: &[f64]| {
        ratio(median(&middles.iter().zip(to).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>()))
    };
    let rows: Vec<_> = contenders
        .iter()
        .map(|contender| {
            let micros = |percent| format!("{:.1}", percentile(&contender.times, percent));
            let (to_apart, to_same) =
                (relative(&contender.middles, &apart), relative(&contender.middles, &same));
            vec![contender.name.to_owned(), micros(50), micros(99), to_apart, to_same]
        })
        .collect();
    let title = "Acquire and release, one task: microseconds; ratios are medians over rounds";
    table(title, &["", "p50", "p99", "/ bare, own thread", "/ bare, caller's"], &rows);
}

fn one(runtime: &Runtime, way: &mut Way) -> f64 {
    const KEY: &str = "uncontended";
    match way {
        Way::Sync(locks) => {
            let start = Instant::now();
            locks.lock(KEY).acquire_blocking().unwrap().release_blocking().unwrap();
            micros(start.elapsed())
        }
        Way::Async(locks) => runtime.block_on(async {
            let start = Instant::now();
            locks.lock(KEY).acquire().await.unwrap().release().await.unwrap();
            micros(start.elapsed())
        }),
        Way::Bare(bare) => runtime.block_on(async {
            let start = Instant::now();
            bare.pair(KEY).await;
            micros(start.elapsed())
        }),
    }
}

// Many at once -------------------------------------------------------------------------------------------------

fn many_at_once(server: &RedisServer, runtime: &Runtime, contenders: &mut [Contender]) {
    let mut client = server.client();
    let mut rows = Vec::new();
    for (tasks, each) in [(1, 400), (64, 40), (1024, 4)] {
        for round in 0..rounds(21, 2) {
            for turn in 0..contenders.len() {
                let next = (turn + round) % contenders.len();
                let contender = &mut contenders[next];
                let load = load(runtime, &mut client, &contender.way, tasks, each);
                // The first round warms up.
                if round > 0 {
                    contender.loads.push(load);
                }
            }
        }
        let bare = &contenders[0];
        for contender in &*contenders {
            let middle =
                |value: fn(&Load) -> f64| median(&contender.loads.iter().map(value).collect::<Vec<_>>());
            rows.push(vec![
                format!("{tasks}: {}", contender.name),
                format!("{:.0}", 1e6 / middle(|load| load.elapsed)),
                ratio(1.0 / contender.relative_to(bare, |load| load.elapsed)),
                format!("{:.1}", middle(|load| load.own_cpu)),
                ratio(contender.relative_to(bare, |load| load.own_cpu)),
                format!("{:.1}", middle(|load| load.server_cpu)),
            ]);
        }
        contenders.iter_mut().for_each(Contender::forget);
    }
    let title = "So many tasks, each with a key of its own, on a runtime of one thread: locks a second, and microseconds \
                 of CPU for each lock; ratios to the first line, medians over rounds";
    table(title, &["tasks", "locks/s", "ratio", "CPU here", "ratio", "CPU of Redis"], &rows);
}

fn load(runtime: &Runtime, client: &mut redis::Connection, way: &Way, tasks: usize, each: usize) -> Load {
    let before = (server_cpu(client), own_cpu(), Instant::now());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..tasks)
            .map(|number| {
                let key = format!("uncontended:{number}");
                match way {
                    Way::Bare(bare) => {
                        let mut bare = bare.clone();
                        tokio::spawn(async move {
                            for _ in 0..each {
                                bare.pair(&key).await;
                            }
                        })
                    }
                    Way::Async(locks) | Way::Sync(locks) => {
                        let locks = locks.clone();
                        tokio::spawn(async move {
                            for _ in 0..each {
                                locks.lock(&key).acquire().await.unwrap().release().await.unwrap();
                            }
                        })
                    }
                }
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let (elapsed, own) = (before.2.elapsed(), own_cpu().saturating_sub(before.1));
    let server = server_cpu(client).saturating_sub(before.0);
    let per_lock = |total: Duration| micros(total) / f64::from(u32::try_from(tasks * each).unwrap());
    Load { elapsed: per_lock(elapsed), own_cpu: per_lock(own), server_cpu: per_lock(server) }
}
