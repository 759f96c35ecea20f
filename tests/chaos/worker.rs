//! What a worker process does: many calls, some cut short, some too long; and it says what happened.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use redlocked::{LockError, LockGuard, LockManager, LockRequest};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::dice::Dice;
use super::support::{Job, LIMIT, listen, now, say};

const TASKS: u64 = 3;

/// So often in a row does a process pass a lock on.
const COHORT: u32 = 3;

/// Shorter than some servers are stopped.
const IO_TIMEOUT: Duration = Duration::from_millis(600);

/// What the driver tells a worker.
#[derive(Clone, Copy)]
pub(crate) struct Orders {
    pub(crate) seed: u64,
    pub(crate) keys: u64,
    /// In milliseconds, to choose from.
    pub(crate) ttls: [u64; 4],
    /// The longest that who does not care about its lease stays, in milliseconds.
    pub(crate) overrun: u64,
}

impl Orders {
    pub(crate) fn to_numbers(self) -> [u64; 7] {
        let [a, b, c, d] = self.ttls;
        [self.seed, self.keys, a, b, c, d, self.overrun]
    }

    fn from_numbers(numbers: &[u64]) -> Self {
        let &[seed, keys, a, b, c, d, overrun] = numbers else { panic!("orders are {numbers:?}") };
        Self { seed, keys, ttls: [a, b, c, d], overrun }
    }
}

pub(crate) fn key(number: u64) -> String {
    format!("k{number}")
}

pub(crate) fn work(job: &Job) {
    let orders = Orders::from_numbers(&job.numbers);
    let (end, ended) = watch::channel(false);
    listen(drop, move || {
        let _ = end.send(true);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Connects when it can: the server may be paused, or cut us off in the middle of it.
    let longest = Duration::from_millis(orders.ttls.into_iter().max().unwrap());
    let mut dice = Dice::new(orders.seed);
    let (mut cohort, mut ttls) = (0, orders.ttls);
    // Every other process passes locks on among its tasks, which takes the same ttl.
    if dice.percent(50) {
        cohort = COHORT;
        ttls = [ttls[dice.index(4)]; 4];
    }
    let builder = LockManager::builder(&job.url).longest_ttl(longest).io_timeout(IO_TIMEOUT).cohort(cohort);
    let locks = builder.start().unwrap();
    let next = Rc::new(Cell::new(0));
    let tasks = tokio::task::LocalSet::new();
    for number in 0..TASKS {
        let caller = Caller {
            locks: locks.clone(),
            dice: Dice::new(orders.seed.wrapping_add(number << 32)),
            keys: orders.keys,
            ttls,
            overrun: orders.overrun,
            next: Rc::clone(&next),
        };
        tasks.spawn_local(caller.run(ended.clone()));
    }
    runtime.block_on(tasks);
    // Whatever is left is what the driver looks for.
    let _ = locks.shutdown_blocking(LIMIT);
}

struct Caller {
    locks: LockManager,
    dice: Dice,
    keys: u64,
    ttls: [u64; 4],
    overrun: u64,
    /// The number of the next hold in this process.
    next: Rc<Cell<u64>>,
}

impl Caller {
    async fn run(mut self, ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            match self.dice.between(0, 10) {
                0 => self.overruns().await,
                1..4 => self.is_cancelled().await,
                _ => self.behaves().await,
            }
            sleep(Duration::from_millis(self.dice.between(0, 4))).await;
        }
    }

    fn request(&mut self) -> (LockRequest, Place) {
        let key_number = self.dice.between(0, self.keys);
        let ttl = Duration::from_millis(self.ttls[self.dice.index(4)]);
        let wait = Duration::from_millis([0, 20, 300, 2000][self.dice.index(4)]);
        let hold = self.next.get();
        self.next.set(hold + 1);
        let request = self.locks.lock(key(key_number)).ttl(ttl).wait(wait);
        (request, Place { key: key_number, hold, ttl, wait })
    }

    /// Waits, enters, looks at its lease from time to time, writes, leaves. Errors are what chaos is for: what
    /// matters is who was inside.
    async fn behaves(&mut self) {
        let (request, place) = self.request();
        let (steps, blocks) = (self.dice.between(0, 5), self.dice.percent(5));
        let call = Call::begin(place);
        let outcome = request.run(async |guard| stay(guard, place, steps, blocks).await).await;
        call.comes_back(&outcome);
    }

    /// The same, dropped in the middle: while it waits, or inside.
    async fn is_cancelled(&mut self) {
        let patience = Duration::from_millis(self.dice.between(0, 40));
        let _ = timeout(patience, self.behaves()).await;
    }

    /// Does not care about its lease, and writes when that may be over.
    async fn overruns(&mut self) {
        let (request, place) = self.request();
        // A short one, that it may be over.
        let ttl = Duration::from_millis(self.ttls[self.dice.index(2)]);
        let longest = (u64::try_from(ttl.as_millis()).unwrap() * 3 / 2).min(self.overrun);
        let pause = Duration::from_millis(self.dice.between(longest / 3, longest));
        let (request, place) = (request.ttl(ttl), Place { ttl, ..place });
        let call = Call::begin(place);
        let guard = match request.renew(false).acquire().await {
            Ok(guard) => guard,
            Err(error) => return call.comes_back(&Err::<(), _>(error)),
        };
        if let Some(visit) = Visit::begin(&guard, place) {
            sleep(pause).await;
            visit.look();
            say("write", &[place.hold, now()]);
        }
        let _ = guard.release().await;
        call.comes_back(&Ok(()));
    }
}

#[derive(Clone, Copy)]
struct Place {
    key: u64,
    hold: u64,
    ttl: Duration,
    wait: Duration,
}

/// Says when a call is made and when it comes back: cancelled, unless it says how.
struct Call {
    hold: u64,
    outcome: u64,
}

impl Call {
    fn begin(place: Place) -> Self {
        let wait = u64::try_from(place.wait.as_millis()).unwrap();
        say("call", &[place.hold, place.key, wait, now()]);
        Self { hold: place.hold, outcome: 0 }
    }

    /// The numbers are those of `calls::OUTCOMES`.
    fn comes_back<T>(mut self, outcome: &Result<T, LockError>) {
        self.outcome = match outcome {
            Ok(_) => 1,
            Err(error) if error.is_busy() => 2,
            Err(LockError::Lost { .. }) => 3,
            Err(LockError::Unavailable { .. } | LockError::Misconfigured { .. }) => 4,
            Err(_) => 5,
        };
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        say("back", &[self.hold, self.outcome, now()]);
    }
}

async fn stay(guard: &LockGuard, place: Place, steps: u64, blocks: bool) {
    let Some(visit) = Visit::begin(guard, place) else {
        return;
    };
    for step in 0..=steps {
        if blocks {
            std::thread::sleep(Duration::from_millis(20));
        }
        sleep(Duration::from_millis(step)).await;
        visit.look();
        if step == steps / 2 {
            say("write", &[place.hold, now()]);
        }
    }
}

/// Says when it begins, goes on and ends. Of two looks at the clock and the lease the clock always comes first: who
/// is frozen in between thinks too early of its deadline, never too late.
struct Visit<'a> {
    guard: &'a LockGuard,
    hold: u64,
}

impl<'a> Visit<'a> {
    /// `None` when the lease is over already: it is not inside.
    fn begin(guard: &'a LockGuard, place: Place) -> Option<Self> {
        let entered = now();
        let deadline = deadline(guard, entered)?;
        // A lease is shorter than the ttl, and counts from when it was asked for.
        let asked = deadline.saturating_sub(u64::try_from(place.ttl.as_nanos()).unwrap());
        say("entered", &[place.hold, place.key, guard.fencing_token(), asked, entered, deadline]);
        Some(Self { guard, hold: place.hold })
    }

    fn look(&self) {
        let at = now();
        if let Some(deadline) = deadline(self.guard, at) {
            say("seen", &[self.hold, at, deadline]);
        }
    }
}

fn deadline(guard: &LockGuard, at: u64) -> Option<u64> {
    let left = u64::try_from(guard.remaining().as_nanos()).unwrap();
    (left > 0).then(|| at + left)
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.look();
        say("left", &[self.hold, now()]);
    }
}
