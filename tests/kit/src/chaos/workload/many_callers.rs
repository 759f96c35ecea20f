//! Many callers of one process at once: a crowd that waits for one lock, bursts of calls, calls
//! dropped by the thousand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::chaos::random::Random;
use crate::chaos::workload::caller::{Caller, drop_after, key};
use crate::chaos::workload::report::{CallParams, CallReport, HoldReport};
use crate::{now, say};

/// Longer than the effect of any operator.
const WAIT: Duration = Duration::from_secs(10);

/// The ttl of dropped calls: a key that one leaves stays for the whole run.
const LONG_TTL: Duration = Duration::from_mins(10);

/// The names of the locks of dropped calls start so.
pub(crate) const DROPPED: &str = "dropped:";

/// The calls of a burst.
const BURST: u64 = 1000;

impl Caller {
    /// Makes many calls for one key, of which the first keeps the lock until the others wait behind
    /// it.
    pub(crate) async fn crowds(mut self, ended: watch::Receiver<bool>, sizes: [u64; 4]) {
        while !*ended.borrow() {
            let number = self.keys.0 + self.random.between(0, self.keys.1);
            let size = sizes[self.random.index(4)];
            let stays = Duration::from_millis(self.random.between(200, 800));
            self.all_at_once(number, size, stays).await;
            sleep(Duration::from_millis(self.random.between(0, 100))).await;
        }
    }

    /// Two processes use the lock all the time; now and then one has a thousand calls at once.
    pub(crate) async fn bursts(mut self, ended: watch::Receiver<bool>) {
        // A process takes its time to start.
        sleep(Duration::from_secs(1)).await;
        while !*ended.borrow() {
            let size = if self.random.percent(4) { BURST } else { 1 };
            self.all_at_once(self.keys.0, size, Duration::ZERO).await;
        }
    }

    async fn all_at_once(&mut self, number: u64, size: u64, first_stays: Duration) {
        let (calls, ttl) = (LocalSet::new(), Duration::from_millis(self.ttls[3]));
        for nth in 0..size {
            let call_params = CallParams { key: number, hold: self.number(), ttl, wait: WAIT, allows: None };
            let request = self.locks.lock(key(number)).ttl(ttl).wait(WAIT);
            let ticker = Arc::clone(&self.ticker);
            let stays = if nth == 0 { first_stays } else { Duration::ZERO };
            calls.spawn_local(async move {
                let call = CallReport::begin(call_params, &ticker);
                let outcome = request.run_value(async |guard| {
                    call.enters();
                    if let Some(report) = HoldReport::begin(guard, call_params) {
                        sleep_if_any(stays).await;
                        say("write", &[call_params.hold, now()]);
                        drop(report);
                    }
                    call.leaves();
                });
                let outcome = outcome.await;
                call.comes_back(&outcome);
            });
        }
        calls.await;
    }

    /// Calls on keys of their own that are dropped a moment after they were begun, beside tasks
    /// that keep the engine of this process busy.
    pub(crate) async fn drops(mut self, ended: watch::Receiver<bool>) {
        const TASKS: u64 = 400;
        let over = Arc::new(AtomicBool::new(false));
        let dropper = {
            let (locks, over, mut random) =
                (self.locks.clone(), Arc::clone(&over), Random::new(self.random.next()));
            thread::spawn(move || {
                let stem = random.next();
                for number in 0_u64.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let request = locks.lock(format!("{DROPPED}{stem:x}:{number}")).ttl(LONG_TTL).wait(WAIT);
                    drop_after(request, Duration::from_micros(random.between(0, 200)));
                }
            })
        };
        let busy = LocalSet::new();
        for number in 0..TASKS {
            let (locks, ended) = (self.locks.clone(), ended.clone());
            busy.spawn_local(async move {
                while !*ended.borrow() {
                    let hot = format!("hot:{}", number % (TASKS / 2));
                    let _ = locks.lock(hot).wait(Duration::from_secs(1)).run_value(async |_| ()).await;
                }
            });
        }
        busy.await;
        over.store(true, Ordering::Relaxed);
        dropper.join().unwrap();
    }
}

async fn sleep_if_any(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}
