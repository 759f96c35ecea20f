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
    let connect = || async { LockManager::connect(format!("memory://{name}")).await.unwrap() };
    let first = connect().await;
    first.testing().unwrap().set_time(ten());
    let (start, ticks) = (Instant::now(), 10);
    let ran = Rc::new(RefCell::new(Vec::new()));
    let set = LocalSet::new();
    for _ in 0..=random.below(3) {
        let locks = connect().await;
        // At most so early that the calls are for their ticks.
        let skew = u32::try_from(random.below(33)).unwrap();
        let body = Duration::from_millis(random.below(30_000));
        let late: Vec<_> = (1..=ticks).map(|_| random.around(4 * SECOND)).collect();
        let ran = Rc::clone(&ran);
        set.spawn_local(async move {
            for (tick, late) in (1..=ticks).zip(late) {
                sleep_until(start + tick * MINUTE + skew * SECOND + late.0 - 8 * SECOND - late.1).await;
                let request = locks.lock("report").tick(MINUTE).tick_missed(missed).wait(MINUTE / 2);
                let outcome = request
                    .run_value(async |guard| {
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
async fn a_clock_that_is_set_back_a_little_costs_nothing_and_by_more_the_ticks_in_between() {
    let locks = LockManager::connect(format!("memory://{}", unique("back"))).await.unwrap();
    let node = locks.testing().unwrap();
    let tick = async || {
        let ran = locks.lock("report").tick(HOUR).run_value(async |guard| guard.tick().unwrap()).await;
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

/// In zones that are half an hour from UTC, and for cron expressions of any minute and second.
#[tokio::test(start_paused = true)]
async fn a_timer_runs_once_for_each_of_its_firings_wherever_in_the_tick_it_fires() {
    // One tick ends and the next one begins two and a half minutes before the full hour.
    let boundary = 3450 * SECOND;
    for phase in [0, 15, 30, 45].map(|minutes| minutes * MINUTE).into_iter().chain([3449 * SECOND, boundary])
    {
        let locks = LockManager::connect(format!("memory://{}", unique("phase"))).await.unwrap();
        let node = locks.testing().unwrap();
        let tick =
            async || locks.lock("report").tick(HOUR).run_value(async |guard| guard.tick().unwrap()).await;
        let mut ran = Vec::new();
        for firing in 0..4_u32 {
            // The replicas are as far apart as they may be.
            for apart in [Duration::ZERO, SECOND, 149 * SECOND] {
                let off = if firing % 2 == 0 { SECOND } else { Duration::ZERO };
                node.set_time(ten() + firing * HOUR + phase + apart - off);
                ran.extend(tick().await.ok());
            }
            assert_eq!(u32::try_from(ran.len()), Ok(firing + 1), "{phase:?}: {ran:?}");
        }
        assert!(ran.is_sorted_by(|one, next| one < next), "{phase:?}: {ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_by_hand_takes_no_later_tick_and_neither_does_a_longer_tick() {
    let locks = LockManager::connect(format!("memory://{}", unique("by-hand"))).await.unwrap();
    let node = locks.testing().unwrap();
    let ran = async |key: &str, length: Duration, at: SystemTime| {
        node.set_time(at);
        locks.lock(key).tick(length).run_value(async |_| ()).await.is_ok()
    };
    assert!(ran("hourly", HOUR, ten()).await);
    assert!(!ran("hourly", HOUR, ten() + 40 * MINUTE).await);
    assert!(ran("hourly", HOUR, ten() + HOUR).await);
    assert!(ran("daily", 24 * HOUR, ten()).await);
    assert!(!ran("daily", 24 * HOUR, ten() + 12 * HOUR).await);
    assert!(ran("daily", 24 * HOUR, ten() + 24 * HOUR).await);
    assert!(ran("shorter", 24 * HOUR, ten()).await);
    assert!(!ran("shorter", 10 * MINUTE, ten() + SECOND).await, "a call of the same firing");
    assert!(ran("shorter", 10 * MINUTE, ten() + 10 * MINUTE).await);
}

/// The caller that was granted the tick has left before it heard of that, and others come just then.
#[tokio::test(start_paused = true)]
async fn a_caller_that_can_wait_runs_a_tick_that_is_about_to_be_given_back() {
    let url = format!("memory://{}", unique("given-back"));
    let (locks, others) =
        (LockManager::connect(&url).await.unwrap(), LockManager::connect(&url).await.unwrap());
    let guard = locks.lock("report").tick(HOUR).acquire().await.unwrap();
    let start = Instant::now();
    let taken = others.lock("report").tick(HOUR).wait(MINUTE).acquire().await;
    assert!(taken.is_err_and(|error| error.kind() == redlocked::LockErrorKind::TickTaken));
    assert!((Duration::from_millis(900)..2 * SECOND).contains(&start.elapsed()), "{:?}", start.elapsed());
    drop(guard);
    // The next tick is granted, and its caller has left.
    locks.testing().unwrap().set_time(SystemTime::now() + 2 * HOUR);
    let first = locks.lock("report").tick(HOUR).acquire();
    assert!(kit::polled(first, 1, false).await.is_none());
    let guard = others.lock("report").tick(HOUR).wait(MINUTE).acquire().await.unwrap();
    assert!(guard.tick().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_record_of_a_clock_that_was_far_ahead_is_cleared() {
    let locks = LockManager::connect(format!("memory://{}", unique("cleared"))).await.unwrap();
    let node = locks.testing().unwrap();
    let tick = async || locks.lock("report").tick(HOUR).run_value(async |guard| guard.tick().unwrap()).await;
    node.set_time(ten() + 400 * 24 * HOUR);
    tick().await.unwrap();
    node.set_time(ten());
    assert!(tick().await.is_err_and(|error| error.is_busy()));
    assert!(locks.clear_tick("report").await.unwrap());
    assert_eq!(tick().await, Ok(ten()));
    assert!(!locks.clear_tick("other").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_caller_runs_the_tick_of_its_call_however_long_it_waits_and_whatever_the_clock_does_meanwhile() {
    let locks = LockManager::connect(format!("memory://{}", unique("waits"))).await.unwrap();
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
    let locks = LockManager::connect(format!("memory://{}", unique("paused-tick"))).await.unwrap();
    locks.testing().unwrap().set_time(ten());
    let tick = async || locks.lock("report").tick(HOUR).run_value(async |guard| guard.tick().unwrap()).await;
    for hour in 0..5 {
        assert_eq!(tick().await, Ok(ten() + hour * HOUR));
        assert!(tick().await.is_err_and(|error| error.is_busy()));
        sleep(HOUR).await;
    }
    let last = locks.last_tick("report").await.unwrap().unwrap();
    assert_eq!(last.time(), ten() + 4 * HOUR);
    sleep(7 * 24 * HOUR).await;
    assert_eq!(locks.last_tick("report").await.unwrap(), None, "its record is over");
}

#[distributed_lock(key = "nightly", constant_key, tick_at = fire_time, tick_missed = "retry", on_busy = Ok(0), manager = locks)]
async fn nightly(
    locks: &LockManager,
    fire_time: SystemTime,
    mails: Result<u32, LockError>,
) -> Result<u32, LockError> {
    mails
}

#[tokio::test(start_paused = true)]
async fn a_node_that_loses_its_data_loses_its_ticks() {
    let locks = LockManager::connect(format!("memory://{}", unique("lost"))).await.unwrap();
    let node = locks.testing().unwrap();
    node.set_time(ten());
    assert!(nightly(&locks, ten(), Err(LockError::NotConfigured)).await.is_err());
    assert_eq!(nightly(&locks, ten(), Ok(3)).await, Ok(3));
    assert_eq!(nightly(&locks, ten(), Ok(3)).await, Ok(0));
    node.lose_data();
    assert_eq!(nightly(&locks, ten(), Ok(3)).await, Ok(3));
}
