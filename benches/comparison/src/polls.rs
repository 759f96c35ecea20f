//! The cost of the lease check before each poll of a body.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use redlocked::{LockManager, OnLost};

use crate::contender::Kind;
use crate::report::Report;
use crate::series::{Series, Table};
use crate::workload::{Extent, Servers};

const YIELDS: u32 = 1000;

const BARE: &str = "the body alone";

const TTL: Duration = Duration::from_secs(30);

/// Takes turns in rounds; each of `ways` gives the times of one round.
pub fn in_turns(rounds: usize, ways: &mut [(Series, &mut dyn FnMut() -> Vec<f64>)]) {
    for round in 0..rounds {
        let turns = ways.len();
        for turn in 0..turns {
            let (series, way) = &mut ways[(turn + round) % turns];
            series.add_round(&way());
        }
    }
}

/// A future that asks to be polled again at once.
struct Yields(u32);

impl Future for Yields {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// How long a poll takes, in nanoseconds, as the body sees it.
async fn body() -> f64 {
    let start = Instant::now();
    Yields(YIELDS).await;
    start.elapsed().as_secs_f64() * 1e9 / f64::from(YIELDS)
}

/// Polls without a pause, so that the time holds only polls.
fn spin<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut cx) {
            return done;
        }
    }
}

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    const IN_A_ROUND: usize = 10;
    let locks = LockManager::connect_blocking(servers.redis.url()).unwrap();
    let one = |policy| {
        spin(locks.lock("polls").ttl(TTL).on_lost(policy).run_value(async |_| body().await)).unwrap()
    };
    let two =
        || spin(locks.lock_all(["polls:1", "polls:2"]).ttl(TTL).run_value(async |_| body().await)).unwrap();
    let mut alone = || (0..IN_A_ROUND).map(|_| spin(body())).collect();
    let mut guarded = || (0..IN_A_ROUND).map(|_| one(OnLost::Cancel)).collect();
    let mut finishes = || (0..IN_A_ROUND).map(|_| one(OnLost::Finish)).collect();
    let mut several = || (0..IN_A_ROUND).map(|_| two()).collect();
    let mut ways: [(Series, &mut dyn FnMut() -> Vec<f64>); 4] = [
        (Series::new(BARE, Kind::Reference), &mut alone),
        (Series::new("redlocked", Kind::Ours), &mut guarded),
        (Series::new("redlocked, on_lost = \"finish\"", Kind::Ours), &mut finishes),
        (Series::new("redlocked, two keys", Kind::Ours), &mut several),
    ];
    in_turns(extent.of(300, 30), &mut ways);
    let table = Table {
        workload: "polls",
        title: &format!("A body that yields {YIELDS} times, polled without a pause"),
        unit: "ns a poll",
        more_is_better: false,
        references: &[(BARE, "the body alone")],
        more: &[],
    };
    let series = ways.map(|(series, _)| series);
    report.add(&table, &series);
    report.target("a poll", series[1].middle());
}
