//! The cost of the lease check before each poll of a body; and of the sync API, from a plain thread and from inside an
//! async runtime.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use redlocked::{LockManager, OnLost, ReleaseOutcome};

use crate::contender::Kind;
use crate::report::Report;
use crate::series::{Series, Table};
use crate::workload::Extent;
use kit::RedisServer;
use kit::bare::COMPARE_AND_DELETE;

const YIELDS: u32 = 1000;

const BARE: &str = "the body alone";

const BARE_SYNC: &str = "SET NX PX + compare-and-delete, redis::Connection";

const TTL: Duration = Duration::from_secs(30);

pub fn measure(server: &RedisServer, extent: Extent, report: &mut Report) {
    polls(server, extent, report);
    sync(server, extent, report);
}

/// Takes turns in rounds; each of `ways` gives the times of one round.
fn in_turns(rounds: usize, ways: &mut [(Series, &mut dyn FnMut() -> Vec<f64>)]) {
    for round in 0..rounds {
        let turns = ways.len();
        for turn in 0..turns {
            let (series, way) = &mut ways[(turn + round) % turns];
            series.add_round(&way());
        }
    }
}

// Polls ------------------------------------------------------------------------------------------------------------

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

fn polls(server: &RedisServer, extent: Extent, report: &mut Report) {
    const IN_A_ROUND: usize = 10;
    let locks = LockManager::connect_blocking(&server.url()).unwrap();
    let one =
        |policy| spin(locks.lock("polls").ttl(TTL).on_lost(policy).run(async |_| body().await)).unwrap();
    let two = || spin(locks.lock_all(["polls:1", "polls:2"]).ttl(TTL).run(async |_| body().await)).unwrap();
    let mut alone = || (0..IN_A_ROUND).map(|_| spin(body())).collect();
    let mut guarded = || (0..IN_A_ROUND).map(|_| one(OnLost::Cancel)).collect();
    let mut finishes = || (0..IN_A_ROUND).map(|_| one(OnLost::Finish)).collect();
    let mut several = || (0..IN_A_ROUND).map(|_| two()).collect();
    let mut ways: [(Series, &mut dyn FnMut() -> Vec<f64>); 4] = [
        (Series::new(BARE, Kind::Limit), &mut alone),
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
        limits: &[(BARE, "the body alone")],
        more: &[],
    };
    report.add(&table, &ways.map(|(series, _)| series));
}

// Sync -------------------------------------------------------------------------------------------------------------

fn sync(server: &RedisServer, extent: Extent, report: &mut Report) {
    const IN_A_ROUND: usize = 25;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let times = |one: &mut dyn FnMut()| {
        let time = |one: &mut dyn FnMut()| {
            let start = Instant::now();
            one();
            start.elapsed().as_secs_f64() * 1e6
        };
        // The first lock finds cold caches and a sleeping thread.
        time(one);
        (0..IN_A_ROUND).map(|_| time(one)).collect::<Vec<f64>>()
    };
    let mut connection = server.client();
    let mut load = redis::cmd("SCRIPT");
    let hash: String = load.arg("LOAD").arg(COMPARE_AND_DELETE).query(&mut connection).unwrap();
    let mut bare = || {
        times(&mut || {
            let token = kit::bare::token();
            let mut set = redis::cmd("SET");
            set.arg("sync").arg(&token).arg("NX").arg("PX").arg(30_000);
            assert!(set.query::<bool>(&mut connection).unwrap());
            let mut release = redis::cmd("EVALSHA");
            assert_eq!(release.arg(&hash).arg(1).arg("sync").arg(token).query::<u8>(&mut connection), Ok(1));
        })
    };
    let locks = LockManager::connect_blocking(&server.url()).unwrap();
    let take = |locks: &LockManager| {
        let guard = locks.lock("sync").ttl(TTL).acquire_blocking().unwrap();
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
    };
    let mut plain = || times(&mut || take(&locks));
    // On a worker, where it makes room for the other tasks by itself.
    let mut inside = || {
        let mut all = Vec::new();
        for number in 0..=IN_A_ROUND {
            let locks = locks.clone();
            // A task each: a thread that has made room once is no longer one of the runtime's.
            let task = runtime.spawn(async move {
                let start = Instant::now();
                take(&locks);
                start.elapsed().as_secs_f64() * 1e6
            });
            let time = runtime.block_on(task).unwrap();
            if number > 0 {
                all.push(time);
            }
        }
        all
    };
    let peer = redlock::RedLock::new(vec![server.url()]);
    let mut peers = || {
        times(&mut || {
            let lock = peer.lock(b"sync", 30_000).unwrap().unwrap();
            peer.unlock(&lock);
        })
    };
    let mut ways: [(Series, &mut dyn FnMut() -> Vec<f64>); 4] = [
        (Series::new(BARE_SYNC, Kind::Limit), &mut bare),
        (Series::new("redlocked, on a plain thread", Kind::Ours), &mut plain),
        (Series::new("redlocked, inside a multi-thread runtime", Kind::Ours), &mut inside),
        (Series::new("redlock 2.0.0", Kind::Peer), &mut peers),
    ];
    in_turns(extent.of(200, 30), &mut ways);
    let table = Table {
        workload: "sync",
        title: "acquire_blocking and release_blocking",
        unit: "p50 in us",
        more_is_better: false,
        limits: &[(BARE_SYNC, "SET NX")],
        more: &[],
    };
    report.add(&table, &ways.map(|(series, _)| series));
}
