//! The callback of a manager: its events for acquired, lost and busy locks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::{RedisServer, SECOND, connect, eventually};
use redlocked::{LockError, LockErrorKind, LockEvent, LockManager, ReleaseOutcome};

/// A manager with a callback, and what that was told.
fn told(server: &RedisServer) -> (LockManager, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let builder = LockManager::builder(server.url()).on_event(move |event| {
        let shown = match event {
            LockEvent::Acquired { key, fencing_token, .. } => {
                format!("{key} acquired {}", fencing_token.map_or("without", |_| "with"))
            }
            LockEvent::Lost { key, reason, .. } => format!("{key} lost {}", reason.as_str()),
            LockEvent::Busy { error, .. } => format!("busy: {error}"),
            _ => format!("{event:?}"),
        };
        tell.lock().unwrap().push(shown);
    });
    (builder.connect_blocking().unwrap(), told)
}

fn taken(told: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *told.lock().unwrap())
}

#[test]
fn each_gain_each_loss_and_each_busy_lock_is_told_once() {
    let server = RedisServer::start();
    let ((locks, told), others) = (told(&server), connect(&server));

    locks
        .lock("k")
        .run_value_blocking(|_| assert_eq!(taken(&told), ["k acquired with"], "before the body"))
        .unwrap();
    assert!(taken(&told).is_empty(), "a release is not told");

    drop(locks.lock_all(["b", "a"]).acquire_blocking().unwrap());
    assert_eq!(taken(&told), ["a acquired with", "b acquired with"]);

    let nested = |_: &_| locks.lock("k").reentrant(true).run_value_blocking(|_| ()).unwrap();
    locks.lock("k").run_value_blocking(nested).unwrap();
    assert_eq!(taken(&told), ["k acquired with"], "a nested call joins");

    let held = others.lock("k").acquire_blocking().unwrap();
    for wait in [Duration::ZERO, Duration::from_millis(20)] {
        let error = locks.lock("k").wait(wait).acquire_blocking().unwrap_err();
        assert_eq!(taken(&told), [format!("busy: {error}")]);
        let value: String = server.run("GET lock:k");
        let (secret, _) = value.split_once('@').unwrap();
        assert!(!format!("{error:?}").contains(secret));
    }
    drop(held);

    let tick = || locks.lock("nightly").tick(Duration::from_secs(366 * 86_400));
    tick().run_value_blocking(|_| ()).unwrap();
    assert_eq!(taken(&told), ["nightly acquired with"]);
    let error = tick().acquire_blocking().unwrap_err();
    assert!(error.is_busy() && error.kind() == LockErrorKind::TickTaken, "{error}");
    assert_eq!(taken(&told), [format!("busy: {error}")], "the event and `is_busy` agree");

    assert!(locks.lock("").acquire_blocking().is_err());
    assert!(taken(&told).is_empty(), "other errors are not told");
}

#[test]
fn a_loss_is_told_with_its_reason_whoever_finds_it() {
    let server = RedisServer::start();
    let (locks, told) = told(&server);
    let lost = |expected: &str| {
        eventually("the loss is told", || told.lock().unwrap().len() == 2);
        assert_eq!(taken(&told), ["k acquired with".to_owned(), format!("k lost {expected}")]);
    };

    let held = locks.lock("k").acquire_blocking().unwrap();
    locks.force_release_blocking("k").unwrap();
    lost("force_released");
    drop(held);

    // The engine finds it: nobody looks at the guard.
    let held = locks.lock("k").max_hold(Duration::from_millis(30)).acquire_blocking().unwrap();
    lost("max_hold");
    drop(held);

    // The release finds it.
    let held = locks.lock("k").acquire_blocking().unwrap();
    let _: i64 = server.run("DEL lock:k");
    assert_eq!(held.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    lost("key_changed");

    let held = locks.lock_all(["k", "l"]).acquire_blocking().unwrap();
    locks.force_release_blocking("l").unwrap();
    locks.force_release_blocking("k").unwrap();
    drop(held);
    locks.shutdown_blocking(SECOND).unwrap();
    assert_eq!(
        taken(&told),
        ["k acquired with", "l acquired with", "l lost force_released"],
        "one hold is lost once"
    );
}

#[test]
fn a_callback_that_panics_harms_no_lock() {
    let server = RedisServer::start();
    let builder = LockManager::builder(server.url()).on_event(|event| panic!("{event:?}"));
    let locks = builder.connect_blocking().unwrap();
    let held = locks.lock("k").acquire_blocking().unwrap();
    assert!(locks.lock("k").acquire_blocking().unwrap_err().is_busy());
    locks.force_release_blocking("k").unwrap();
    eventually("it is lost", || !held.is_held());
    drop(held);
    assert_eq!(locks.lock("k").run_value_blocking(|_| 7).unwrap(), 7);
    locks.shutdown_blocking(SECOND).unwrap();
}

#[test]
fn a_waiter_that_is_handed_the_lock_is_told_and_an_unfenced_gain_has_no_number() {
    let server = RedisServer::start();
    let ((locks, told), others) = (told(&server), connect(&server));
    let held = others.lock("k").acquire_blocking().unwrap();
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| locks.lock("k").wait(30 * SECOND).run_value_blocking(|_| ()));
        eventually("it waits", || {
            others.inspect_blocking("k").unwrap().is_some_and(|lock| lock.waiters() == 1)
        });
        assert!(taken(&told).is_empty());
        drop(held);
        waits.join().unwrap().unwrap();
    });
    assert_eq!(taken(&told), ["k acquired with"]);

    assert_eq!(unfenced(&locks), Ok(()));
    assert_eq!(taken(&told), ["unfenced acquired without"]);
}

#[redlocked::distributed_lock(key = "unfenced", constant_key, manager = locks)]
fn unfenced(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}
