//! From the last line of one holder to the first line of the next, while others wait.
//!
//! Who has given it back asks again when the next one is inside, not before: else most locks would go back to whoever has
//! just had them, in no time, and nobody else would ever be served.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::Extent;
use crate::contender::{self, Client, Contender, Kind, PING, Part};
use crate::delay::DelayProxy;
use crate::report::{Report, Series, Table};
use crate::support::{RedisServer, unique};

/// Those who wait are spread over so many clients at most.
const CLIENTS: usize = 10;

pub fn measure(server: &RedisServer, extent: Extent, report: &mut Report) {
    let proxy = DelayProxy::to(server.port(), Duration::from_micros(500));
    // Held long enough for the last holder to ask again.
    let places = [("on loopback", server.url(), 1), ("at a round trip of 1 ms", proxy.url(), 4)];
    for (far, url, holds_ms) in places {
        let holds = Duration::from_millis(holds_ms);
        for waiters in [2, 50, 500] {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let crowd = Crowd { waiters, holds, lasts: Duration::from_millis(extent.of(4000, 900)) };
            runtime.block_on(compare(server, far, &url, &crowd, extent, report));
        }
    }
}

struct Crowd {
    waiters: usize,
    holds: Duration,
    lasts: Duration,
}

async fn compare(
    server: &RedisServer,
    far: &str,
    url: &str,
    crowd: &Crowd,
    extent: Extent,
    report: &mut Report,
) {
    let waiters = crowd.waiters;
    let contenders = contender::all(url, CLIENTS.min(waiters)).await;
    let takes_part = |one: &&Contender| match one.part {
        Part::Everything => one.name != "redlocked, memory://",
        Part::Some => waiters <= 50,
        Part::Free | Part::Alone => one.name == PING,
    };
    let mut series: Vec<_> = contenders
        .iter()
        .filter(takes_part)
        .map(|contender| (contender, Series::new(contender.name, contender.kind)))
        .collect();
    let mut bytes: Vec<Vec<f64>> = vec![Vec::new(); series.len()];
    for round in 0..extent.of(5, 1) {
        for turn in 0..series.len() {
            let next = (turn + round) % series.len();
            let (contender, series) = &mut series[next];
            if contender.kind == Kind::Limit {
                series.add_round(&pings(&contender.clients[0], crowd.holds).await);
                continue;
            }
            let sent = input_bytes(server);
            let (times, held) = hand_overs(&contender.clients, crowd).await;
            if held > 0 {
                bytes[next].push((input_bytes(server) - sent) / f64::from(held));
            }
            series.add_round(&times);
        }
    }
    for ((_, series), bytes) in series.iter_mut().zip(bytes) {
        series.more =
            vec![series.all.len().to_string(), format!("{:.0}", crate::report::percentile(&bytes, 50))];
    }
    let table = Table {
        workload: &format!("hand-off {far}, {waiters} waiters"),
        title: &format!("{waiters} wait, {far}: from a release to the next holder"),
        unit: "p50 in ms",
        more_is_better: false,
        limits: &[(PING, "PING")],
        more: &["of so many", "bytes sent to Redis a lock"],
    };
    report.add(&table, &series.into_iter().map(|(_, series)| series).collect::<Vec<_>>());
}

/// With the pauses of a hand-over, so that both find the threads equally asleep.
async fn pings(client: &Arc<dyn Client>, pause: Duration) -> Vec<f64> {
    let mut times = Vec::new();
    for _ in 0..100 {
        tokio::time::sleep(pause).await;
        let start = Instant::now();
        client.locked(String::new(), Duration::ZERO, Box::pin(async {})).await.unwrap();
        times.push(millis(start.elapsed()));
    }
    times
}

#[derive(Default)]
struct Baton {
    left_at: Option<Instant>,
    times: Vec<f64>,
}

/// How long each took, and how often it was held.
async fn hand_overs(clients: &[Arc<dyn Client>], crowd: &Crowd) -> (Vec<f64>, u32) {
    let &Crowd { waiters, holds, lasts } = crowd;
    let key = unique("hand-off");
    let baton = Arc::new(Mutex::new(Baton::default()));
    let held = Arc::new(watch::Sender::new(0_u32));
    let start = Instant::now();
    // While the queue fills, nothing is counted.
    let counts_from = start + lasts / 3;
    let tasks: Vec<_> = (0..waiters)
        .map(|number| {
            let client = Arc::clone(&clients[number % clients.len()]);
            let (key, baton, held) = (key.clone(), Arc::clone(&baton), Arc::clone(&held));
            tokio::spawn(async move {
                let left = || lasts.checked_sub(start.elapsed()).filter(|left| !left.is_zero());
                while let Some(wait) = left() {
                    let mine = Arc::new(AtomicU32::new(0));
                    let (baton, held_now, number) =
                        (Arc::clone(&baton), Arc::clone(&held), Arc::clone(&mine));
                    let body = async move {
                        let now = Instant::now();
                        {
                            let mut baton = baton.lock().unwrap();
                            if let Some(left_at) = baton.left_at.take().filter(|at| *at > counts_from) {
                                baton.times.push(millis(now - left_at));
                            }
                        }
                        held_now.send_modify(|times| {
                            *times += 1;
                            number.store(*times, Ordering::Relaxed);
                        });
                        tokio::time::sleep(holds).await;
                        baton.lock().unwrap().left_at = Some(Instant::now());
                    };
                    if client.locked(key.clone(), wait, Box::pin(body)).await.is_ok() {
                        let mut entered = held.subscribe();
                        let next_is_inside = entered.wait_for(|times| *times > mine.load(Ordering::Relaxed));
                        let _ = tokio::time::timeout(left().unwrap_or_default(), next_is_inside).await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let times = std::mem::take(&mut baton.lock().unwrap().times);
    (times, *held.borrow())
}

fn input_bytes(server: &RedisServer) -> f64 {
    let stats: String = server.run("INFO stats");
    let line = stats.lines().find_map(|line| line.strip_prefix("total_net_input_bytes:")).unwrap();
    line.trim().parse().unwrap()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
