//! Readers, holders of one or several permits, and writers that become readers, beside the second client, which knows no counted locks: it stands for clients of
//! before they came. Both exclude each other, wait in one queue, and hand the lock over in both directions.

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kit::{LIMIT, RedisServer, SECOND, Worker, connect, eventually, now, runtime};
use redlocked::LostReason;

use super::peer;

/// From when to when one was inside, in nanoseconds, and the fencing token: 0 without one.
#[derive(Clone, Copy, Debug)]
struct Hold {
    key: u64,
    entered: u64,
    seen: u64,
    fence: u64,
}

/// What the second client has said of its holds.
#[derive(Default)]
struct Second {
    holds: Vec<(usize, u64, Hold)>,
}

impl Second {
    fn hears(&mut self, process: usize, lines: Vec<kit::Line>) {
        for line in lines {
            match (line.word.as_str(), &line.numbers[..]) {
                ("entered", &[hold, key, fence, at]) => {
                    self.holds.push((process, hold, Hold { key, entered: at, seen: at, fence }));
                }
                ("seen", &[hold, at]) => {
                    let is_it = |one: &&mut (usize, u64, Hold)| (one.0, one.1) == (process, hold);
                    self.holds.iter_mut().rev().find(is_it).unwrap().2.seen = at;
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_client_that_knows_no_counted_locks_and_those_that_have_them_exclude_each_other() {
    let server = RedisServer::start();
    let numbers = |seed: u32| [seed, 2, 2].map(|number| number.to_string());
    let Some(first) = peer::second(&server, &numbers(1)) else {
        return;
    };
    let others = (2..5).map(|seed| peer::second(&server, &numbers(seed)).unwrap());
    let mut processes: Vec<Worker> = std::iter::once(first).chain(others).collect();
    let (mut second, ours) = (Second::default(), Mutex::new(Vec::new()));
    let managers = [connect(&server), connect(&server)];
    // Most of both at once, and how often one of ours had the lock alone.
    let together = [0, 1].map(|_| AtomicU32::new(0));
    let most = AtomicU32::new(0);
    let is_over = AtomicBool::new(false);
    runtime().block_on(async {
        let calls = (0..16_u32).map(|number| {
            let (locks, ours, together) =
                (&managers[number as usize % 2], &ours, &together[number as usize % 4 / 2]);
            let (most, is_over) = (&most, &is_over);
            async move {
                let key = u64::from(number % 4 / 2);
                while !is_over.load(Ordering::SeqCst) {
                    let request = locks.lock(format!("k{key}")).wait(LIMIT);
                    let request = match number {
                        0..6 => request.shared(),
                        6..12 => request.permits(3).take(1 + number % 3),
                        // They have it alone first.
                        _ => request,
                    };
                    let guard = request.acquire().await.unwrap();
                    let entered = now();
                    if number >= 12 {
                        tokio::time::sleep(Duration::from_millis((number % 3).into())).await;
                        guard.downgrade().await.unwrap();
                    }
                    let inside = together.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(inside, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis((number % 5).into())).await;
                    let (seen, fence) = (now(), guard.fencing_token());
                    together.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                    ours.lock().unwrap().push(Hold { key, entered, seen, fence });
                    tokio::time::sleep(Duration::from_millis(number.into())).await;
                }
            }
        });
        // An operator changes how many permits there are; one takes three of them. On a busy machine it goes on until
        // there is enough to look at.
        let operates = async {
            let (start, least) = (Instant::now(), Duration::from_secs(6));
            for permits in (3..6).cycle() {
                for (number, process) in processes.iter().enumerate() {
                    second.hears(number, process.said());
                }
                let has_enough = ours.lock().unwrap().len() > 50
                    && second.holds.len() > 50
                    && most.load(Ordering::SeqCst) > 1;
                if start.elapsed() > least && (has_enough || start.elapsed() > least + 2 * LIMIT) {
                    break;
                }
                for key in ["k0", "k1"] {
                    managers[0].set_permits(key, permits).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            is_over.store(true, Ordering::SeqCst);
        };
        let calls = calls.map(|call| -> Pin<Box<dyn Future<Output = ()> + '_>> { Box::pin(call) });
        let mut all: Vec<_> = calls.chain([Box::pin(operates) as _]).collect();
        std::future::poll_fn(|cx| {
            all.retain_mut(|call| call.as_mut().poll(cx).is_pending());
            if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    });
    for process in &mut processes {
        process.dismiss();
    }
    for (number, mut process) in processes.into_iter().enumerate() {
        process.ends();
        second.hears(number, process.last_words());
    }
    let ours = ours.into_inner().unwrap();
    let theirs: Vec<_> = second.holds.into_iter().map(|(_, _, hold)| hold).collect();
    for one in &ours {
        for other in theirs.iter().filter(|other| other.key == one.key) {
            assert!(
                one.seen <= other.entered || other.seen <= one.entered,
                "both are inside: {one:?} {other:?}"
            );
            let is_before = one.seen <= other.entered;
            let grows = if is_before { one.fence < other.fence } else { other.fence < one.fence };
            assert!(other.fence == 0 || grows, "fencing tokens: {one:?} {other:?}");
        }
    }
    let counts = (ours.len(), theirs.len(), most.load(Ordering::SeqCst));
    assert!(counts.0 > 50 && counts.1 > 50 && counts.2 > 1, "{counts:?}");
    drop(managers);
    eventually("no lock is left", || server.keys().iter().all(|name| name.contains('%')));
}

/// It waits for the lock behind two readers, whose leases last for ten minutes.
#[test]
fn a_client_that_knows_no_counted_locks_enters_behind_the_readers_that_an_operator_has_ended() {
    let server = RedisServer::start();
    let (readers, operator) = (connect(&server), connect(&server));
    let read = |label| readers.lock("k0").shared().ttl(600 * SECOND).label(label).acquire_blocking().unwrap();
    let guards = [read("one"), read("two")];
    let Some(mut second) = peer::second(&server, &[1, 2, 1].map(|number| number.to_string())) else {
        return;
    };
    for guard in &guards {
        let mut seen = None;
        eventually("it waits", || {
            seen = operator.inspect_blocking("k0").unwrap().filter(|info| info.waiters() > 0);
            seen.is_some()
        });
        assert!(second.said().iter().all(|line| line.word != "entered"), "a reader is inside");
        let holder = seen.unwrap().holders()[0].clone();
        assert!(operator.force_release_from_blocking("k0", &holder).unwrap(), "{guard:?}");
    }
    let entered = second.says("entered");
    assert!(entered[2] == 0 || entered[2] > guards[0].fencing_token(), "{entered:?}");
    for guard in &guards {
        eventually("it learns it", || !guard.is_held());
        assert_eq!(guard.lost_reason(), Some(LostReason::Revoked));
    }
    second.dismiss();
    second.ends();
}
