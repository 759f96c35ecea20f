//! The time from the call of a release to the next holder's first line: beside the usual way to wait, and beside one bare
//! round trip, the limit for every lock that goes through a server.
//!
//! ```text
//! cargo bench --bench hand_off
//! ```
//!
//! A manager with a thread and a connection of its own stands for each process. The contenders take turns in small
//! rounds, and one of their rounds is a round of pings.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::bare::{Bare, OwnThread};
use kit::figures::{median, micros, percentile, rounds, table};
use kit::wake::WakeAndAsk;
use kit::{DelayProxy, RedisServer};
use redlocked::LockManager;

const KEY: &str = "hand-off";
const LONG: Duration = Duration::from_secs(30);

/// Counted hand-overs in one round. Before them come as many as there are waiters, while the queue fills.
const IN_A_ROUND: usize = 20;

fn main() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let proxy = DelayProxy::to(server.port(), Duration::from_micros(500));
    let places = [("loopback", server.url(), 2), ("a round trip of 1 ms", proxy.url(), 4)];
    let mut rows = Vec::new();
    for (place, url, holds_ms) in places {
        for (waiters, processes) in [(2, 2), (50, 1), (50, 10)] {
            let crowd = Crowd { waiters, processes, holds: Duration::from_millis(holds_ms) };
            rows.extend(runtime.block_on(compare(place, &url, &crowd)));
        }
    }
    let title = "From the call of a release to the next holder's first line, in microseconds";
    let head = ["where, waiters/processes: how", "p50", "p99", "p50 / ping", "p50 / wake"];
    table(title, &head, &rows);
}

struct Crowd {
    waiters: usize,
    processes: usize,
    /// Long enough for the last holder to queue again.
    holds: Duration,
}

async fn compare(place: &str, url: &str, crowd: &Crowd) -> Vec<Vec<String>> {
    let thread = OwnThread::start();
    let mut bare = Bare::connect_on(&thread, url).await;
    let mut managers = Vec::new();
    let mut others = Vec::new();
    for _ in 0..crowd.processes {
        managers.push(LockManager::connect(url).await.unwrap());
        others.push(WakeAndAsk::connect_on(&thread, url, "wake-and-ask").await);
    }
    let (mut ours, mut wake, mut ping) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds(5, 1) {
        for _ in 0..IN_A_ROUND {
            // The pause of a hand-over, so that the threads are equally asleep in both.
            tokio::time::sleep(crowd.holds).await;
            let start = Instant::now();
            bare.ping().await;
            ping.push(micros(start.elapsed()));
        }
        ours.extend(crowd.of_ours(&managers).await);
        wake.extend(crowd.of_wake(&others).await);
    }
    let (ping_p50, wake_p50) = (median(&ping), median(&wake));
    let name = format!("{place}, {}/{}", crowd.waiters, crowd.processes);
    [("ping", &ping), ("redlocked", &ours), ("wake and ask again", &wake)]
        .map(|(how, times)| {
            let p50 = median(times);
            vec![
                format!("{name}: {how}"),
                format!("{p50:.0}"),
                format!("{:.0}", percentile(times, 99)),
                format!("{:.2}", p50 / ping_p50),
                format!("{:.2}", p50 / wake_p50),
            ]
        })
        .into()
}

impl Crowd {
    async fn of_ours(&self, managers: &[LockManager]) -> Vec<f64> {
        let baton = Arc::new(Mutex::new(Baton::new(self.waiters)));
        let tasks = (0..self.waiters).map(|number| {
            let (baton, holds, locks) =
                (Arc::clone(&baton), self.holds, managers[number % self.processes].clone());
            tokio::spawn(async move {
                loop {
                    let guard = locks.lock(KEY).wait(LONG).acquire().await.unwrap();
                    let goes_on = Baton::take(&baton);
                    tokio::time::sleep(holds).await;
                    Baton::pass(&baton);
                    guard.release().await.unwrap();
                    if !goes_on {
                        return;
                    }
                }
            })
        });
        finish(tasks.collect(), &baton).await
    }

    async fn of_wake(&self, others: &[WakeAndAsk]) -> Vec<f64> {
        let baton = Arc::new(Mutex::new(Baton::new(self.waiters)));
        let tasks = (0..self.waiters).map(|number| {
            let (baton, holds, mut lock) =
                (Arc::clone(&baton), self.holds, others[number % self.processes].clone());
            tokio::spawn(async move {
                loop {
                    let token = lock.acquire().await;
                    let goes_on = Baton::take(&baton);
                    tokio::time::sleep(holds).await;
                    Baton::pass(&baton);
                    lock.release(&token).await;
                    if !goes_on {
                        return;
                    }
                }
            })
        });
        finish(tasks.collect(), &baton).await
    }
}

async fn finish(tasks: Vec<tokio::task::JoinHandle<()>>, baton: &Mutex<Baton>) -> Vec<f64> {
    for task in tasks {
        task.await.unwrap();
    }
    std::mem::take(&mut baton.lock().unwrap().times)
}

/// A holder leaves here, for the next one, when it called its release.
struct Baton {
    released: Option<Instant>,
    /// Hand-overs that are not counted, while the queue fills.
    warm_up: usize,
    times: Vec<f64>,
}

impl Baton {
    fn new(warm_up: usize) -> Self {
        Self { released: None, warm_up, times: Vec::new() }
    }

    /// The first line of a holder. False when there have been enough hand-overs.
    fn take(baton: &Mutex<Self>) -> bool {
        let now = Instant::now();
        let mut baton = baton.lock().unwrap();
        let goes_on = baton.times.len() < IN_A_ROUND;
        let Some(released) = baton.released.take() else {
            return goes_on;
        };
        if baton.warm_up > 0 {
            baton.warm_up -= 1;
        } else if goes_on {
            baton.times.push(micros(now - released));
        }
        goes_on
    }

    fn pass(baton: &Mutex<Self>) {
        baton.lock().unwrap().released = Some(Instant::now());
    }
}
