//! Several keys as one uncontended lock: acquire and release, beside those of one key.
//!
//! ```text
//! cargo bench --bench many_keys
//! ```
//!
//! The contenders take turns in small rounds, so that other work of the machine hits all of them.
//! Read the ratios: the times depend on the machine.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::time::Instant;

use kit::RedisServer;
use kit::figures::{median, micros, percentile, rounds, table};
use redlocked::LockManager;
use tokio::runtime::Runtime;

const COUNTS: [usize; 4] = [1, 2, 8, 64];

fn main() {
    kit::no_bench_arguments();
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (place, url) in [("Redis", server.url()), ("memory://", "memory://many-keys".to_owned())] {
        let locks = LockManager::connect_blocking(&url).unwrap();
        side_by_side(place, &runtime, &locks);
    }
}

/// The times of one number of keys, in microseconds, round by round.
#[derive(Default)]
struct Times {
    taken: Vec<f64>,
    released: Vec<f64>,
    middles: Vec<f64>,
}

fn side_by_side(place: &str, runtime: &Runtime, locks: &LockManager) {
    const IN_A_ROUND: usize = 10;
    let mut contenders = COUNTS.map(|count| (keys(count), Times::default()));
    for round in 0..rounds(200, 2) {
        for turn in 0..contenders.len() {
            let next = (turn + round) % contenders.len();
            let (keys, times) = &mut contenders[next];
            let pairs: Vec<_> = (0..=IN_A_ROUND).map(|_| once(runtime, locks, keys)).collect();
            // The first lock finds cold caches and a sleeping thread.
            let (taken, released): (Vec<_>, Vec<_>) = pairs[1..].iter().copied().unzip();
            times.middles.push(median(&taken));
            times.taken.extend(taken);
            times.released.extend(released);
        }
    }
    let one = contenders[0].1.middles.clone();
    let rows = contenders.iter().map(|(keys, times)| {
        let ratios: Vec<f64> = times.middles.iter().zip(&one).map(|(ours, one)| ours / one).collect();
        let micros = |times: &[f64], percent| format!("{:.1}", percentile(times, percent));
        vec![
            keys.len().to_string(),
            micros(&times.taken, 50),
            micros(&times.taken, 99),
            format!("{:.2}", median(&ratios)),
            micros(&times.released, 50),
        ]
    });
    let heads = ["keys", "acquire, us", "p99", "relative to one key", "release, us"];
    table(&format!("Keys of one lock, on {place}"), &heads, &rows.collect::<Vec<_>>());
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key:{count}:{number:02}")).collect()
}

/// How long the acquire took, and the release.
fn once(runtime: &Runtime, locks: &LockManager, keys: &[String]) -> (f64, f64) {
    runtime.block_on(async {
        let start = Instant::now();
        let guard = locks.lock_all(keys).acquire().await.unwrap();
        let taken = micros(start.elapsed());
        let start = Instant::now();
        guard.release().await.unwrap();
        (taken, micros(start.elapsed()))
    })
}
