//! The time from the call of a release to the next holder's first line: an annotated function
//! beside direct hand-off written by hand, beside the usual way to wait, and beside one bare round
//! trip, the limit for every lock that goes through a server.
//!
//! ```text
//! cargo bench --bench hand_off
//! ```
//!
//! A client with a connection of its own stands for each process. The contenders take turns in
//! small rounds, and one of their rounds is a round of pings. Read the ratios: the times depend on
//! the machine.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kit::bare::{Bare, OwnThread};
use kit::contender::{Annotated, Client, Clients, Direct};
use kit::figures::{median, micros, over, percentile, rounds, table};
use kit::load::runtime;
use kit::wake::WakeAndAsk;
use kit::{DelayProxy, RedisServer};
use redlocked::LockManager;

const KEY: &str = "hand-off";
const LONG: Duration = Duration::from_secs(30);

/// Counted hand-overs in one round. Before them come as many as there are waiters, while the queue
/// fills.
const IN_A_ROUND: usize = 20;

fn main() {
    kit::no_bench_arguments();
    let server = RedisServer::start();
    let runtime = runtime(1);
    let proxy = DelayProxy::to(server.port(), Duration::from_micros(500));
    let places = [("loopback", server.url(), 2), ("a round trip of 1 ms", proxy.url(), 4)];
    let mut rows = Vec::new();
    for (place, url, holds_ms) in places {
        for (waiters, processes) in [(2, 2), (50, 1), (50, 10)] {
            let crowd = Crowd { waiters, holds: Duration::from_millis(holds_ms) };
            rows.extend(runtime.block_on(compare(place, &url, &crowd, processes)));
        }
    }
    let title = "From the call of a release to the next holder's first line, in microseconds; ratios are medians over \
                 rounds of p50";
    table(title, &["where, waiters/processes: how", "p50", "p99", "/ direct", "/ ping", "/ wake"], &rows);
}

struct Crowd {
    waiters: usize,
    /// Long enough for the last holder to queue again.
    holds: Duration,
}

/// All times, and the median of each round.
#[derive(Default)]
struct Times {
    all: Vec<f64>,
    medians: Vec<f64>,
}

impl Times {
    fn add(&mut self, round: Vec<f64>) {
        self.medians.push(median(&round));
        self.all.extend(round);
    }
}

async fn compare(place: &str, url: &str, crowd: &Crowd, processes: usize) -> Vec<Vec<String>> {
    let thread = OwnThread::start();
    let mut bare = Bare::connect(url).await;
    let [mut ours, mut direct, mut wake] = [(); 3].map(|()| Clients::new());
    for _ in 0..processes {
        ours.push(Arc::new(Annotated(LockManager::connect(url).await.unwrap())));
        direct.push(Arc::new(Direct::connect(url).await));
        wake.push(Arc::new(WakeAndAsk::connect_on(&thread, url, KEY).await));
    }
    let mut times: [Times; 4] = Default::default();
    for round in 0..rounds(6, 1) {
        for turn in 0..times.len() {
            let next = (turn + round) % times.len();
            let one_round = match next {
                0 => pings(&mut bare, crowd.holds).await,
                1 => crowd.hand_overs("direct", &direct).await,
                2 => crowd.hand_overs("annotated", &ours).await,
                // The key that it has subscribed to.
                _ => crowd.hand_overs(KEY, &wake).await,
            };
            times[next].add(one_round);
        }
    }
    let name = format!("{place}, {}/{processes}", crowd.waiters);
    let [ping, direct, _, wake] = &times;
    ["ping", "direct hand-off by hand", "annotated async fn", "wake and ask again"]
        .into_iter()
        .zip(&times)
        .map(|(how, times)| {
            let ratio = |to: &Times| format!("{:.2}", over(&times.medians, &to.medians));
            vec![
                format!("{name}: {how}"),
                format!("{:.0}", median(&times.all)),
                format!("{:.0}", percentile(&times.all, 99)),
                ratio(direct),
                ratio(ping),
                ratio(wake),
            ]
        })
        .collect()
}

/// With the pause of a hand-over, so that the threads are equally asleep in both.
async fn pings(bare: &mut Bare, pause: Duration) -> Vec<f64> {
    let mut times = Vec::new();
    for _ in 0..IN_A_ROUND {
        tokio::time::sleep(pause).await;
        let start = Instant::now();
        bare.ping().await;
        times.push(micros(start.elapsed()));
    }
    times
}

impl Crowd {
    async fn hand_overs(&self, key: &'static str, clients: &[Arc<dyn Client>]) -> Vec<f64> {
        let baton = Arc::new(Mutex::new(Baton::new(self.waiters)));
        let tasks: Vec<_> = (0..self.waiters)
            .map(|number| {
                let (baton, holds, client) =
                    (Arc::clone(&baton), self.holds, Arc::clone(&clients[number % clients.len()]));
                tokio::spawn(async move {
                    while Baton::goes_on(&baton) {
                        let held = Arc::clone(&baton);
                        let body = async move {
                            Baton::take(&held);
                            tokio::time::sleep(holds).await;
                            Baton::pass(&held);
                        };
                        client.locked(key.to_owned(), LONG, Box::pin(body)).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        std::mem::take(&mut baton.lock().unwrap().times)
    }
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

    /// There have not been enough hand-overs yet.
    fn goes_on(baton: &Mutex<Self>) -> bool {
        baton.lock().unwrap().times.len() < IN_A_ROUND
    }

    /// The first line of a holder.
    fn take(baton: &Mutex<Self>) {
        let now = Instant::now();
        let mut baton = baton.lock().unwrap();
        let Some(released) = baton.released.take() else { return };
        if baton.warm_up > 0 {
            baton.warm_up -= 1;
        } else if baton.times.len() < IN_A_ROUND {
            baton.times.push(micros(now - released));
        }
    }

    fn pass(baton: &Mutex<Self>) {
        baton.lock().unwrap().released = Some(Instant::now());
    }
}
