//! An uncontended lock without an async runtime: an annotated `fn`, from a plain thread and from
//! inside a runtime.

use std::sync::Arc;
use std::time::Instant;

use kit::bare::{Bare, BareSync, OwnThread};
use kit::contender::AnnotatedSync;
use kit::load::runtime;
use redlocked::LockManager;

use crate::contender::Kind;
use crate::polls::in_turns;
use crate::report::Report;
use crate::series::{Series, Table, find};
use crate::workload::{Extent, Servers};

const IN_A_ROUND: usize = 25;

const BARE: &str = "SET NX PX + compare-and-delete, redis::Connection";
const APART: &str = "the same, its connection on a thread of its own";
const ANNOTATED: &str = "redlocked, annotated fn, on a plain thread";

const KEY: &str = "sync";

pub fn measure(servers: &Servers, extent: Extent, report: &mut Report) {
    let url = servers.redis.url();
    let bare = BareSync::connect(&url);
    let (thread, blocks, inside) = (OwnThread::start(), runtime(1), runtime(2));
    let mut apart = blocks.block_on(Bare::connect_on(&thread, &url));
    // The loop of a manager that both used would be with the runtime, and not with the plain
    // thread.
    let ours = || Arc::new(AnnotatedSync(LockManager::connect_blocking(&url).unwrap()));
    let (plain, annotated) = (ours(), ours());
    let peer = redlock::RedLock::new(vec![url]);
    let mut by_peer = || {
        let lock = peer.lock(KEY.as_bytes(), 30_000).unwrap().unwrap();
        peer.unlock(&lock);
    };
    let on_a_worker = || {
        let annotated = Arc::clone(&annotated);
        // A task each: a thread that has made room for the other tasks once is no longer one of the
        // runtime's.
        let task = inside.spawn(async move { time(&mut || annotated.call(KEY)) });
        inside.block_on(task).unwrap()
    };
    let mut ways: [(Series, &mut dyn FnMut() -> Vec<f64>); 5] = [
        (Series::new(BARE, Kind::Reference), &mut || times(&mut || time(&mut || bare.pair(KEY)))),
        (Series::new(APART, Kind::Reference), &mut || {
            times(&mut || time(&mut || blocks.block_on(apart.pair(KEY))))
        }),
        (Series::new(ANNOTATED, Kind::Ours), &mut || times(&mut || time(&mut || plain.call(KEY)))),
        (Series::new("redlocked, annotated fn, inside a runtime of two workers", Kind::Ours), &mut || {
            times(&mut || on_a_worker())
        }),
        (Series::new("redlock 2.0.0", Kind::Peer), &mut || times(&mut || time(&mut by_peer))),
    ];
    in_turns(extent.of(200, 30), &mut ways);
    let table = Table {
        workload: "sync",
        title: "Without async: acquire and release",
        unit: "p50 in µs",
        more_is_better: false,
        references: &[(APART, "own thread"), (BARE, "bare")],
        more: &[],
    };
    let series = ways.map(|(series, _)| series);
    report.add(&table, &series);
    let ours = find(&series, ANNOTATED).zip(find(&series, BARE));
    report.target("sync", ours.and_then(|(ours, bare)| ours.over(bare)));
}

/// In microseconds.
fn time(one: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    one();
    start.elapsed().as_secs_f64() * 1e6
}

/// Those of one round. The first lock finds cold caches and a sleeping thread.
fn times(one: &mut dyn FnMut() -> f64) -> Vec<f64> {
    (0..=IN_A_ROUND).map(|_| one()).skip(1).collect()
}
