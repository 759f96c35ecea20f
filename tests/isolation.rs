//! What one caller, one key or one node suffers does not cost the others.

mod support;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use redlocked::LockManager;
use support::{LIMIT, RedisServer};

const SECOND: Duration = Duration::from_secs(1);

fn connect(server: &RedisServer) -> LockManager {
    LockManager::connect_blocking(&server.url()).unwrap()
}

/// Calls that are dropped a moment after they were begun, each for a key of its own, until `stop`.
fn dropped_calls(locks: &LockManager, thread: usize, stop: &AtomicBool) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut nth = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let request = locks.lock(format!("dropped:{thread}:{nth}"));
        let mut call = request.ttl(600 * SECOND).wait(60 * SECOND).acquire();
        assert!(Pin::new(&mut call).poll(&mut cx).is_pending());
        let (began, pause) = (Instant::now(), Duration::from_micros(nth * 7919 % 200));
        while began.elapsed() < pause {
            std::hint::spin_loop();
        }
        drop(call);
        nth += 1;
    }
}

/// So many pushes at once that they use up what tokio lets a task do in one poll, more or less: then a batch that is sent
/// by the next poll, and another one behind it.
fn pushes(server: &RedisServer, stop: &AtomicBool) {
    let channels: Vec<String> = server.run("PUBSUB CHANNELS lock:%inbox:*");
    let mut client = server.client();
    for count in (118..128).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
        let mut burst = redis::pipe();
        for _ in 0..count {
            burst.cmd("PUBLISH").arg(&channels).arg("next|nobody|1|0|nothing").ignore();
        }
        burst.exec(&mut client).unwrap();
        thread::sleep(Duration::from_micros(300));
    }
}

#[test]
fn calls_that_are_dropped_by_the_thousand_leave_no_lock() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let stop = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| pushes(&server, &stop));
        for thread in 0..3 {
            let (locks, stop) = (&locks, &stop);
            scope.spawn(move || dropped_calls(locks, thread, stop));
        }
        thread::sleep(2 * SECOND);
        stop.store(true, Ordering::Relaxed);
    });
    locks.shutdown_blocking(LIMIT).unwrap();
    assert_eq!(server.keys(), Vec::<String>::new());
}
