//! Redlock on five servers: an uncontended lock, beside the bare commands to all five, while all
//! are well and while two of them are killed or stopped.
//!
//! ```text
//! cargo bench --bench quorum
//! ```
//!
//! Each scenario has five servers of its own, and all contenders of all scenarios take turns in
//! small rounds. Read the ratios: the times depend on how many cores the servers share.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::thread;
use std::time::{Duration, Instant};

use kit::bare::OwnThread;
use kit::bare_quorum::BareQuorum;
use kit::figures::{median, micros, percentile, rounds, table};
use kit::{LIMIT, Quorum, RedisServer, eventually};
use redlocked::LockManager;
use tokio::runtime::Runtime;

const NODES: usize = 5;

/// The minority that is killed or stopped.
const FAULTY: [usize; 2] = [1, 3];

/// Short, because servers without persistence vote only when they have been up for one ttl.
const TTL: Duration = Duration::from_secs(3);

fn main() {
    kit::no_bench_arguments();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let thread = OwnThread::start();
    let well = Quorum::forgetful(NODES);
    let stopped = Quorum::forgetful(NODES);
    long_since(&runtime, &thread, &well, &stopped);
    from_the_first_on(&runtime, &thread, &well, &stopped);
}

enum Way<'a> {
    Bare(BareQuorum<'a>),
    Async(LockManager),
    Sync(LockManager),
}

impl<'a> Way<'a> {
    fn bare(runtime: &Runtime, thread: &'a OwnThread, quorum: &Quorum) -> Self {
        let urls = quorum.servers.iter().map(RedisServer::url).collect();
        Self::Bare(runtime.block_on(BareQuorum::connect_on(thread, urls)))
    }

    /// Acquire and release, in microseconds.
    fn one(&self, runtime: &Runtime, key: &str) -> f64 {
        let start = Instant::now();
        match self {
            Self::Bare(bare) => runtime.block_on(bare.pair(key)),
            Self::Async(locks) => runtime.block_on(async {
                locks.lock(key).ttl(TTL).acquire().await.unwrap().release().await.unwrap();
            }),
            Self::Sync(locks) => {
                locks.lock(key).ttl(TTL).acquire_blocking().unwrap().release_blocking().unwrap();
            }
        }
        micros(start.elapsed())
    }
}

/// Connected; all nodes vote.
fn connect(quorum: &Quorum) -> LockManager {
    let locks = quorum.builder().max_ttl(TTL).connect_blocking().unwrap();
    eventually("all nodes vote", || {
        let guard = locks.lock("warm-up").ttl(TTL).wait(LIMIT).acquire_blocking();
        let copies = quorum.copies("lock:warm-up");
        drop(guard);
        copies == NODES
    });
    locks
}

fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

// After the first locks ---------------------------------------------------------------------------

struct Contender<'a> {
    name: &'static str,
    way: Way<'a>,
    /// One lock each, in microseconds.
    times: Vec<f64>,
    /// The middle one of each round.
    middles: Vec<f64>,
}

impl<'a> Contender<'a> {
    fn new(name: &'static str, way: Way<'a>) -> Self {
        Self { name, way, times: Vec::new(), middles: Vec::new() }
    }

    /// The middle of the rounds, each relative to the same round of `other`.
    fn relative_to(&self, other: &Self) -> f64 {
        let ratios = self.middles.iter().zip(&other.middles).map(|(ours, theirs)| ours / theirs);
        median(&ratios.collect::<Vec<_>>())
    }
}

fn long_since(runtime: &Runtime, thread: &OwnThread, well: &Quorum, stopped: &Quorum) {
    const IN_A_ROUND: usize = 25;
    let mut killed = Quorum::forgetful(NODES);
    let alone = RedisServer::start();
    let locks = connect(well);
    let alone = LockManager::connect_blocking(alone.url()).map(|locks| (locks, alone)).unwrap();
    let mut contenders = [
        Contender::new("bare, all well", Way::bare(runtime, thread, well)),
        Contender::new("redlocked, all well, async", Way::Async(locks.clone())),
        Contender::new("redlocked, all well, sync", Way::Sync(locks)),
        Contender::new("bare, two killed", Way::bare(runtime, thread, &killed)),
        Contender::new("redlocked, two killed, async", Way::Async(connect(&killed))),
        Contender::new("bare, two stopped", Way::bare(runtime, thread, stopped)),
        Contender::new("redlocked, two stopped, async", Way::Async(connect(stopped))),
        Contender::new("redlocked, one server, async", Way::Async(alone.0)),
    ];
    for node in FAULTY {
        killed.servers[node].kill();
        stopped.servers[node].pause();
    }
    for round in 0..rounds(400, 2) {
        for turn in 0..contenders.len() {
            let next = (turn + round) % contenders.len();
            let contender = &mut contenders[next];
            let times: Vec<f64> = (0..=IN_A_ROUND).map(|_| contender.way.one(runtime, "quorum")).collect();
            // The first lock finds cold caches and a sleeping thread.
            contender.middles.push(median(&times[1..]));
            contender.times.extend(&times[1..]);
            // The late answers are read before the next contender's turn.
            thread::sleep(Duration::from_micros(500));
        }
    }
    let (bare, ours) = (&contenders[0], &contenders[1]);
    let p99 = |contender: &Contender<'_>| percentile(&contender.times, 99);
    let rows: Vec<_> = contenders
        .iter()
        .map(|contender| {
            vec![
                contender.name.to_owned(),
                format!("{:.0}", median(&contender.times)),
                format!("{:.0}", p99(contender)),
                ratio(contender.relative_to(bare)),
                ratio(contender.relative_to(ours)),
                ratio(p99(contender) / p99(ours)),
            ]
        })
        .collect();
    let title = "Acquire and release on five servers, one task: microseconds; ratios of medians are medians over rounds";
    let head = ["", "p50", "p99", "p50 / bare, all well", "p50 / ours, all well", "p99 / ours, all well"];
    table(title, &head, &rows);
    for node in FAULTY {
        stopped.servers[node].resume();
    }
}

// From the first lock on --------------------------------------------------------------------------

/// The first locks of a fresh client: fewer than it takes until the client gives up a silent node.
const FIRST: usize = 100;

fn from_the_first_on(runtime: &Runtime, thread: &OwnThread, well: &Quorum, stopped: &Quorum) {
    let names = [
        "bare, all well",
        "redlocked, all well",
        "bare, two stopped behind its back",
        "redlocked, two stopped behind its back",
        "redlocked, two stopped before it connects",
    ];
    let mut runs = names.map(|_| Vec::new());
    let first_locks = |way: &Way<'_>| -> Vec<f64> {
        (0..FIRST).map(|number| way.one(runtime, &format!("quorum:{number}"))).collect()
    };
    for _ in 0..rounds(60, 1) {
        let bare = [well, stopped].map(|quorum| Way::bare(runtime, thread, quorum));
        let ours = [well, stopped].map(|quorum| Way::Async(connect(quorum)));
        runs[0].push(first_locks(&bare[0]));
        runs[1].push(first_locks(&ours[0]));
        for node in FAULTY {
            stopped.servers[node].pause();
        }
        runs[2].push(first_locks(&bare[1]));
        runs[3].push(first_locks(&ours[1]));
        let late = stopped.builder().max_ttl(TTL).connect_blocking().unwrap();
        runs[4].push(first_locks(&Way::Async(late)));
        for node in FAULTY {
            stopped.servers[node].resume();
            eventually("it is back", || stopped.servers[node].is_running());
        }
    }
    let well = runs[1].concat();
    let rows: Vec<_> = names
        .iter()
        .zip(&runs)
        .map(|(name, runs)| {
            let firsts: Vec<f64> = runs.iter().map(|times| times[0]).collect();
            let all = runs.concat();
            vec![
                (*name).to_owned(),
                format!("{:.0}", median(&firsts)),
                format!("{:.0}", percentile(&firsts, 100)),
                format!("{:.0}", median(&all)),
                format!("{:.0}", percentile(&all, 99)),
                ratio(median(&all) / median(&well)),
                ratio(percentile(&all, 99) / percentile(&well, 99)),
            ]
        })
        .collect();
    let title = format!(
        "The first {FIRST} locks of a fresh client, one task: microseconds; ratios to ours, all well"
    );
    table(&title, &["", "first: p50", "first: max", "p50", "p99", "p50 ratio", "p99 ratio"], &rows);
}
