//! A caller of a worker process: it chooses at random among what careful, impatient and careless
//! users do.

use std::cell::Cell;
use std::future::{Future, pending};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use redlocked::election::{LeadError, Term};
use redlocked::{LockError, LockGuard, LockManager, LockRequest, distributed_lock};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::chaos::random::Random;
use crate::chaos::workload::report::{CallParams, CallReport, HoldReport};
use crate::chaos::workload::ticker::Ticker;
use crate::{now, say};

/// The number of a call for several keys; it is none of their numbers.
pub(crate) const SEVERAL: u64 = 999;

pub(crate) fn key(number: u64) -> String {
    format!("k{number}")
}

/// The tasks of a worker that take locks, one after the other.
pub struct Caller {
    pub(crate) locks: LockManager,
    pub(crate) random: Random,
    /// The first of its keys, and their number.
    pub(crate) keys: (u64, u64),
    /// The ttls in milliseconds, to choose from; the first two are short.
    pub(crate) ttls: [u64; 4],
    /// The longest that a caller that does not look at its lease stays, in milliseconds.
    pub(crate) overrun: u64,
    /// The number of the next call in this process.
    pub(crate) next: Rc<Cell<u64>>,
    pub(crate) ticker: Arc<Ticker>,
}

#[derive(Clone, Copy)]
enum Action {
    Behaves,
    IsCancelled,
    Overruns,
    Extends,
    TakesSeveral,
    IsForced,
    Inspects,
    DropsMany,
    Leads,
}

/// The actions of a caller of short locks, each with its weight.
const ACTIONS: &[(u64, Action)] = &[
    (40, Action::Behaves),
    (8, Action::Leads),
    (24, Action::IsCancelled),
    (9, Action::Overruns),
    (8, Action::Extends),
    (4, Action::TakesSeveral),
    (2, Action::IsForced),
    (3, Action::Inspects),
    (2, Action::DropsMany),
];

impl Caller {
    pub(crate) async fn roams(mut self, ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            match self.random.pick(ACTIONS) {
                Action::Behaves => self.behaves().await,
                Action::IsCancelled => self.cancels().await,
                Action::Overruns => self.overruns().await,
                Action::Extends => self.extends().await,
                Action::TakesSeveral => self.takes_several().await,
                Action::IsForced => self.forces_itself().await,
                Action::Inspects => self.inspects().await,
                Action::DropsMany => self.drops_many().await,
                Action::Leads => self.leads().await,
            }
            sleep(Duration::from_millis(self.random.between(0, 4))).await;
        }
    }

    /// Keeps locks of a long ttl across all faults, and asks for another ttl at most `changes`
    /// times.
    pub(crate) async fn keeps(mut self, ended: watch::Receiver<bool>, lasts: [u64; 4], changes: u64) {
        while !*ended.borrow() {
            let (request, call_params) = self.request();
            let wait = Duration::from_secs(8);
            let call_params = CallParams { wait, ..call_params };
            let lasts = Duration::from_millis(lasts[self.random.index(4)]);
            let changes: Vec<_> = (0..changes).map(|_| self.another_ttl()).collect();
            let call = CallReport::begin(call_params, &self.ticker);
            let outcome = request.wait(wait).run_value(async |guard| {
                call.enters();
                keep(guard, call_params, lasts, &changes).await;
                call.leaves();
            });
            let outcome = outcome.await;
            call.comes_back(&outcome);
            sleep(Duration::from_millis(self.random.between(0, 20))).await;
        }
    }

    /// One try, or a wait that is shorter than a claim, again and again.
    pub(crate) async fn tries(mut self, ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            let (request, call_params) = self.request();
            let wait = Duration::from_millis([0, 0, 300, 900][self.random.index(4)]);
            let call_params = CallParams { wait, ..call_params };
            self.holds(request.wait(wait).min_hold(Duration::ZERO), call_params, async |_, report| {
                look_for(report, Duration::from_millis(5)).await;
                say("write", &[call_params.hold, now()]);
            })
            .await;
            sleep(Duration::from_millis(self.random.between(5, 100))).await;
        }
    }

    /// Waits for as long as it takes, and is inside for a moment.
    pub(crate) async fn waits(mut self, ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            let (request, call_params) = self.request();
            let (ttl, wait) = (Duration::from_millis(self.ttls[3]), Duration::from_secs(15));
            let (request, call_params) =
                (request.ttl(ttl).wait(wait), CallParams { ttl, wait, ..call_params });
            self.holds(request.min_hold(Duration::ZERO), call_params, async |_, report| {
                look_for(report, Duration::from_millis(5)).await;
            })
            .await;
            sleep(Duration::from_millis(self.random.between(0, 200))).await;
        }
    }

    /// Short calls in the first half of each round, and none in the second: the rounds of all
    /// processes begin together.
    pub(crate) async fn rests(mut self, ended: watch::Receiver<bool>) {
        const ROUND: u64 = 1_200_000_000;
        while !*ended.borrow() {
            if now() % ROUND > ROUND / 2 {
                sleep(Duration::from_millis(10)).await;
                continue;
            }
            let (request, call_params) = self.request();
            let wait = Duration::from_millis([0, 0, 20, 100][self.random.index(4)]);
            let stays = Duration::from_millis(self.random.between(5, 60));
            let (request, call_params) = (request.wait(wait), CallParams { wait, ..call_params });
            self.holds(request.min_hold(Duration::ZERO), call_params, async |_, report| {
                look_for(report, stays).await;
                say("write", &[call_params.hold, now()]);
            })
            .await;
            sleep(Duration::from_millis(self.random.between(0, 10))).await;
        }
    }

    /// Gives a lock back, and computes in the same poll.
    pub(crate) async fn blocks(mut self, ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            let (request, call_params) = self.request();
            let wait = Duration::from_secs(8);
            let call_params = CallParams { wait, ..call_params };
            let call = CallReport::begin(call_params, &self.ticker);
            let outcome = match request.wait(wait).min_hold(Duration::ZERO).acquire().await {
                Ok(guard) => {
                    call.enters();
                    if let Some(report) = HoldReport::begin(&guard, call_params) {
                        // While nothing is asked for long, nobody looks after the loop.
                        look_for(&report, Duration::from_millis(1500)).await;
                    }
                    call.leaves();
                    drop(guard);
                    Ok(())
                }
                Err(error) => Err(error),
            };
            call.comes_back(&outcome);
            std::thread::sleep(Duration::from_secs(5));
            sleep(Duration::from_millis(self.random.between(100, 1000))).await;
        }
    }

    /// A pause, and the ttl to ask for after it.
    fn another_ttl(&mut self) -> (Duration, Duration) {
        let (pause, ttl) = (self.random.between(50, 400), [12_000, 200][self.random.index(2)]);
        (Duration::from_millis(pause), Duration::from_millis(ttl))
    }

    pub(crate) fn number(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }

    pub(crate) fn request(&mut self) -> (LockRequest, CallParams) {
        let key_number = self.keys.0 + self.random.between(0, self.keys.1);
        let ttl = Duration::from_millis(self.ttls[self.random.index(4)]);
        let wait = Duration::from_millis([0, 20, 300, 2000][self.random.index(4)]);
        let min_hold = self.random.percent(3).then(|| Duration::from_millis(self.random.between(1, 50)));
        let mut request = self.locks.lock(key(key_number)).ttl(ttl).wait(wait);
        if let Some(min_hold) = min_hold {
            request = request.min_hold(min_hold);
        }
        (request, CallParams { key: key_number, hold: self.number(), ttl, wait, allows: None })
    }

    /// Waits, enters, looks at its lease from time to time, writes, leaves. Chaos causes errors:
    /// the checker only compares the holds.
    async fn behaves(&mut self) {
        let (request, call_params) = self.request();
        let (steps, blocks) = (self.random.between(0, 5), self.random.percent(5));
        let sees_its_guard = self.random.percent(50);
        let call = CallReport::begin(call_params, &self.ticker);
        let outcome = if sees_its_guard {
            let outcome = request.run_value(async |guard| {
                call.enters();
                stay(guard, call_params, steps, blocks).await;
                call.leaves();
            });
            outcome.await
        } else {
            let nested = self.locks.lock(key(call_params.key)).reentrant(true);
            let body = async {
                call.enters();
                // It fails when the lock is lost.
                if let Ok(guard) = nested.acquire().await {
                    stay(&guard, call_params, steps, blocks).await;
                }
                call.leaves();
            };
            sees_no_guard(&self.locks, call_params, body).await
        };
        call.comes_back(&outcome);
    }

    /// A call that is dropped while it waits, or while its body runs.
    async fn cancels(&mut self) {
        let patience = Duration::from_millis(self.random.between(0, 40));
        let _ = timeout(patience, self.behaves()).await;
    }

    /// Ignores its lease, and writes when the lease may be over.
    async fn overruns(&mut self) {
        let (request, call_params) = self.request();
        // A short ttl, so that the lease may be over.
        let ttl = Duration::from_millis(self.ttls[self.random.index(2)]);
        let longest = (u64::try_from(ttl.as_millis()).unwrap() * 3 / 2).min(self.overrun);
        let pause = Duration::from_millis(self.random.between(longest / 3, longest));
        let (request, call_params) = (request.ttl(ttl).renew(false), CallParams { ttl, ..call_params });
        self.holds(request, call_params, async |_, report| {
            sleep(pause).await;
            report.look();
            say("write", &[call_params.hold, now()]);
        })
        .await;
    }

    /// Asks for another ttl, shorter or longer, and goes on beside that.
    async fn extends(&mut self) {
        let (request, call_params) = self.request();
        let [first, then] = [self.random.index(4), self.random.index(4)];
        let [ttl, other] = [first, then].map(|which| Duration::from_millis(self.ttls[which]));
        let (renew, lasts) =
            (self.random.percent(50), Duration::from_millis(self.random.between(5, self.overrun)));
        let request = request.min_hold(Duration::ZERO).ttl(ttl).renew(renew);
        let call_params = CallParams { ttl, ..call_params };
        self.holds(request, call_params, async |guard, report| {
            let goes_on = async {
                let start = Instant::now();
                while report.look() && start.elapsed() < lasts {
                    sleep(Duration::from_millis(4)).await;
                }
            };
            report.asks_for(other);
            let (_, ()) = tokio::join!(guard.extend(other), goes_on);
            // The answer may have come late.
            let start = Instant::now();
            while report.look() && start.elapsed() < Duration::from_millis(20) {
                sleep(Duration::from_millis(4)).await;
            }
        })
        .await;
    }

    /// Two locks in one call.
    async fn takes_several(&mut self) {
        let (_, call_params) = self.request();
        let other = self.keys.0 + (call_params.key - self.keys.0 + 1) % self.keys.1;
        let params = [call_params, CallParams { key: other, hold: self.number(), ..call_params }];
        let keys = params.map(|call_params| key(call_params.key));
        let request = self.locks.lock_all(keys.clone()).ttl(call_params.ttl).wait(call_params.wait);
        let call = CallReport::begin(CallParams { key: SEVERAL, ..call_params }, &self.ticker);
        let outcome = request.run_value(async |guard| {
            call.enters();
            let [first, second] = [0, 1].map(|one| {
                let fence = guard.fencing_token_of(&keys[one]).expect("it is one of them");
                HoldReport::of_one(guard, params[one], fence)
            });
            sleep(Duration::from_millis(3)).await;
            drop((first, second));
            call.leaves();
        });
        let outcome = outcome.await;
        call.comes_back(&outcome);
    }

    /// Takes the lock away from itself, as a route for operators in the same service does.
    async fn forces_itself(&mut self) {
        let (request, call_params) = self.request();
        let (before, after) = (self.random.between(0, 600), self.random.between(0, 400));
        let locks = self.locks.clone();
        let request = request.min_hold(Duration::ZERO);
        self.holds(request, call_params, async |_, report| {
            look_for(report, Duration::from_millis(before)).await;
            forces(&locks, call_params.key).await;
            look_for(report, Duration::from_millis(after)).await;
        })
        .await;
    }

    /// Waits and leads in place of holding, for one term: its body returns, resigns, or is
    /// stopped.
    async fn leads(&mut self) {
        let (_, call_params) = self.request();
        let wait = Duration::from_millis([300, 2000][self.random.index(2)]);
        let (call_params, resigns) = (CallParams { wait, ..call_params }, self.random.percent(50));
        let stays = Duration::from_millis(self.random.between(0, 60));
        let election = self.locks.election(key(call_params.key)).ttl(call_params.ttl);
        let call = CallReport::begin(call_params, &self.ticker);
        let (is_inside, left) = (Cell::new(false), Notify::new());
        let term = election.lead(async |term: Term| {
            // The next term can begin in the poll that has ended the first one: this call is over then.
            if is_inside.replace(true) {
                pending::<()>().await;
            }
            call.enters();
            let mut leaves = Leaves(Some(&left));
            if let Some(report) = HoldReport::of_term(&term, call_params) {
                look_for(&report, stays).await;
                say("write", &[call_params.hold, now()]);
                call.leaves();
                if resigns {
                    term.resign();
                    pending::<()>().await;
                }
            }
            leaves.0 = None;
            Ok::<_, LockError>(())
        });
        let patience = async {
            sleep(wait).await;
            if is_inside.get() {
                pending::<()>().await;
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = term => outcome,
            () = left.notified() => return,
            () = patience => return,
        };
        match outcome {
            Ok(()) => call.comes_back(&Ok(())),
            Err(LeadError::Lock(error) | LeadError::Body(error)) => call.comes_back(&Err::<(), _>(error)),
        }
    }

    async fn inspects(&mut self) {
        let number = self.keys.0 + self.random.between(0, self.keys.1);
        let _ = self.locks.inspect(&key(number)).await;
    }

    /// Calls that are polled once and dropped a moment later.
    async fn drops_many(&mut self) {
        for _ in 0..self.random.between(1, 100) {
            let (request, _) = self.request();
            let pause = Duration::from_micros(self.random.between(0, 200));
            drop_after(request, pause);
        }
        tokio::task::yield_now().await;
    }

    /// Acquires, stays, releases.
    pub(crate) async fn holds(
        &mut self,
        request: LockRequest,
        call_params: CallParams,
        body: impl AsyncFnOnce(&LockGuard, &HoldReport),
    ) {
        let call = CallReport::begin(call_params, &self.ticker);
        match request.acquire().await {
            Ok(guard) => {
                call.enters();
                if let Some(report) = HoldReport::begin(&guard, call_params) {
                    body(&guard, &report).await;
                }
                call.leaves();
                let _ = guard.release().await;
                call.comes_back(&Ok(()));
            }
            Err(error) => call.comes_back(&Err::<(), _>(error)),
        }
    }
}

/// Tells that a body was stopped.
struct Leaves<'a>(Option<&'a Notify>);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if let Some(left) = self.0 {
            left.notify_one();
        }
    }
}

/// The lock is taken without a fencing token.
#[distributed_lock(key = "k{params.key}", ttl = params.ttl, wait = params.wait, manager = locks)]
async fn sees_no_guard(
    locks: &LockManager,
    params: CallParams,
    body: impl Future<Output = ()>,
) -> Result<(), LockError> {
    body.await;
    Ok(())
}

/// Begins the call, and drops it.
pub(crate) fn drop_after(request: LockRequest, pause: Duration) {
    let mut acquire = std::pin::pin!(request.acquire());
    let _ = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let start = Instant::now();
    while start.elapsed() < pause {
        std::hint::spin_loop();
    }
}

/// `force_release`, reported before and after.
async fn forces(locks: &LockManager, number: u64) {
    say("forces", &[number, now()]);
    let done = locks.force_release(&key(number)).await;
    say("forced", &[number, now(), u64::from(done.is_ok())]);
}

pub(crate) async fn look_for(report: &HoldReport<'_>, time: Duration) {
    let start = Instant::now();
    while report.look() && start.elapsed() < time {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Checks its lease all the time, and asks for other ttls without waiting for the answer to the one
/// before.
async fn keep(guard: &LockGuard, call_params: CallParams, time: Duration, ttls: &[(Duration, Duration)]) {
    let Some(report) = HoldReport::begin(guard, call_params) else {
        return;
    };
    let looks = async {
        let start = Instant::now();
        while report.look() && start.elapsed() < time {
            sleep(Duration::from_millis(20)).await;
        }
        say("write", &[call_params.hold, now()]);
    };
    let changes = async {
        for (pause, ttl) in ttls {
            report.asks_for(*ttl);
            let _ = timeout(*pause, guard.extend(*ttl)).await;
            sleep(*pause / 4).await;
        }
        pending::<()>().await;
    };
    tokio::select! {
        () = looks => {}
        () = changes => {}
    }
}

async fn stay(guard: &LockGuard, call_params: CallParams, steps: u64, blocks: bool) {
    let Some(report) = HoldReport::begin(guard, call_params) else {
        return;
    };
    for step in 0..=steps {
        if blocks {
            std::thread::sleep(Duration::from_millis(20));
        }
        sleep(Duration::from_millis(step)).await;
        report.look();
        if step == steps / 2 {
            say("write", &[call_params.hold, now()]);
        }
    }
}
