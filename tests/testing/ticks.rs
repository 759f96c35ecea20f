//! Ticks in memory, on a clock that the test moves: a fleet of replicas whose clocks are off, and a
//! node whose clock is set back.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kit::{SECOND, unique};
use redlocked::{LockError, LockManager, TickMissed, distributed_lock};
use tokio::task::LocalSet;
use tokio::time::{Instant, advance, sleep, sleep_until};

const MINUTE: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3600);

/// `2026-11-26 10:00:00 UTC`
fn ten() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_687_200)
}

/// A linear congruential generator: the same fleets in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Up to so far from zero.
    fn around(&mut self, limit: Duration) -> (Duration, Duration) {
        let off = Duration::from_secs(limit.as_secs()) * u32::try_from(self.below(2000)).unwrap() / 1000;
        (off.saturating_sub(limit), limit.saturating_sub(off))
    }
}

/// The replicas of a fleet, each with a manager of its own, a clock that is off, a timer that is late,
/// and a body of some length. Returns the ticks that were run, in the order of their runs, and how
/// many there were.
async fn fleet(random: &mut Random, missed: TickMissed) -> (Vec<SystemTime>, u32) {
    let name = unique("fleet");
    let connect = || async { LockManager::connect(&format!("memory://{name}")).await.unwrap() };
    let first = connect().await;
    first.testing().unwrap().set_time(ten());
    let (start, ticks) = (Instant::now(), 10);
    let ran = Rc::new(RefCell::new(Vec::new()));
    let set = LocalSet::new();
    for _ in 0..=random.below(3) {
        let locks = connect().await;
        let skew = random.around(25 * SECOND);
        let body = Duration::from_millis(random.below(30_000));
        let late: Vec<_> = (1..=ticks).map(|_| random.around(4 * SECOND)).collect();
        let ran = Rc::clone(&ran);
        set.spawn_local(async move {
            for (tick, late) in (1..=ticks).zip(late) {
                sleep_until(start + tick * MINUTE + skew.0 + late.0 - skew.1 - late.1).await;
                let request = locks.lock("report").tick(MINUTE).tick_missed(missed).wait(MINUTE / 2);
                let outcome = request
                    .run(async |guard| {
                        ran.borrow_mut().push(guard.tick().unwrap());
                        sleep(body).await;
                    })
                    .await;
                assert!(outcome.is_ok() || outcome.as_ref().is_err_and(LockError::is_busy), "{outcome:?}");
            }
        });
    }
    set.await;
    drop(first);
    (Rc::into_inner(ran).unwrap().into_inner(), ticks)
}

#[tokio::test(start_paused = true)]
async fn a_random_fleet_runs_each_tick_once() {
    let mut random = Random(7);
    for missed in [TickMissed::Skip, TickMissed::Retry] {
        for number in 0..40 {
            let (mut ran, ticks) = fleet(&mut random, missed).await;
            ran.sort_unstable();
            let expected: Vec<_> = (1..=ticks).map(|tick| ten() + tick * MINUTE).collect();
            assert_eq!(ran, expected, "fleet {number}, {missed:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_by_less_than_half_a_tick_costs_nothing_and_by_more_the_ticks_in_between() {
    let locks = LockManager::connect(&format!("memory://{}", unique("back"))).await.unwrap();
    let node = locks.testing().unwrap();
    let tick = async || {
        let ran = locks.lock("report").tick(HOUR).run(async |guard| guard.tick().unwrap()).await;
        ran.map_err(|error| error.kind().as_str())
    };
    node.set_time(ten());
    assert_eq!(tick().await, Ok(ten()));
    node.set_time(ten() + HOUR - MINUTE);
    assert_eq!(tick().await, Ok(ten() + HOUR));
    node.set_time(ten() - HOUR);
    for _ in 0..3 {
        assert_eq!(tick().await, Err("tick_taken"), "no tick is run twice");
        advance(HOUR).await;
    }
    assert_eq!(tick().await, Ok(ten() + 2 * HOUR));
}

#[tokio::test(start_paused = true)]
async fn a_caller_runs_the_tick_of_its_call_however_long_it_waits_and_whatever_the_clock_does_meanwhile() {
    let locks = LockManager::connect(&format!("memory://{}", unique("waits"))).await.unwrap();
    let node = locks.testing().unwrap();
    node.set_time(ten());
    let waits = || tokio::spawn(locks.lock("report").tick(HOUR).wait(10 * HOUR).acquire());
    // Its first request reaches the node an hour later.
    node.set_unreachable();
    let behind_an_outage = waits();
    sleep(HOUR).await;
    node.recover();
    let guard = behind_an_outage.await.unwrap().unwrap();
    assert_eq!(guard.tick(), Some(ten()));
    // It has asked, and asks again.
    let behind_a_body = waits();
    sleep(MINUTE).await;
    node.set_time(ten() + 4 * HOUR);
    guard.release().await.unwrap();
    assert_eq!(behind_a_body.await.unwrap().unwrap().tick(), Some(ten() + HOUR));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_node_goes_on_with_a_clock_that_is_paused() {
    let locks = LockManager::connect(&format!("memory://{}", unique("paused-tick"))).await.unwrap();
    locks.testing().unwrap().set_time(ten());
    let tick = async || locks.lock("report").tick(HOUR).run(async |guard| guard.tick().unwrap()).await;
    for hour in 0..5 {
        assert_eq!(tick().await, Ok(ten() + hour * HOUR));
        assert!(tick().await.is_err_and(|error| error.is_busy()));
        sleep(HOUR).await;
    }
    let last = locks.last_tick("report").await.unwrap().unwrap();
    assert_eq!(last.time(), ten() + 4 * HOUR);
    sleep(30 * HOUR).await;
    assert_eq!(locks.last_tick("report").await.unwrap(), None, "its record is over");
}

#[distributed_lock(key = "nightly", global, tick_at = fire_time, tick_missed = "retry", on_busy = Ok(0), manager = locks)]
async fn nightly(
    locks: &LockManager,
    fire_time: SystemTime,
    mails: Result<u32, LockError>,
) -> Result<u32, LockError> {
    mails
}

#[tokio::test(start_paused = true)]
async fn a_node_that_loses_its_data_loses_its_ticks() {
    let locks = LockManager::connect(&format!("memory://{}", unique("lost"))).await.unwrap();
    let node = locks.testing().unwrap();
    node.set_time(ten());
    assert!(nightly(&locks, ten(), Err(LockError::NotConfigured)).await.is_err());
    assert_eq!(nightly(&locks, ten(), Ok(3)).await, Ok(3));
    assert_eq!(nightly(&locks, ten(), Ok(3)).await, Ok(0));
    node.lose_data();
    assert_eq!(nightly(&locks, ten(), Ok(3)).await, Ok(3));
}
