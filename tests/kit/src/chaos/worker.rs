//! A worker process: what it is for, and how it begins and ends.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use redlocked::LockManager;
use tokio::sync::watch;
use tokio::task::LocalSet;

use super::caller::Caller;
use super::company::{ROLES, Role};
use super::dice::Dice;
use super::ticker::Ticker;
use super::visit::IO_TIMEOUT;
use crate::{Job, LIMIT, listen};

/// So often in a row does a process pass a lock on.
const COHORT: u32 = 3;

/// The ttls of locks that are kept, in milliseconds: renewed much later than a claim ends.
pub(crate) const LONG_TTLS: [u64; 4] = [6000, 12_000, 12_000, 12_000];

/// What the driver tells a worker.
#[derive(Clone, Copy)]
pub struct Orders {
    pub(crate) role: Role,
    pub(crate) seed: u64,
    /// In milliseconds, to choose from.
    pub(crate) ttls: [u64; 4],
    /// The longest that who does not care about its lease stays, in milliseconds.
    pub(crate) overrun: u64,
}

impl Orders {
    pub(crate) fn to_numbers(self) -> [u64; 7] {
        let [a, b, c, d] = self.ttls;
        [self.role.number(), self.seed, a, b, c, d, self.overrun]
    }

    fn from_numbers(numbers: &[u64]) -> Self {
        let &[role, seed, a, b, c, d, overrun] = numbers else { panic!("orders are {numbers:?}") };
        let role = ROLES[usize::try_from(role).unwrap()].role;
        Self { role, seed, ttls: [a, b, c, d], overrun }
    }
}

/// What a worker process does: it takes locks until its standard input ends.
pub fn work(job: &Job) {
    let orders = Orders::from_numbers(&job.numbers);
    let (end, ended) = watch::channel(false);
    listen(drop, move || {
        let _ = end.send(true);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut dice = Dice::new(orders.seed);
    let (mut cohort, mut ttls) = (0, orders.ttls);
    // Every other process passes locks on among its tasks, which takes the same ttl.
    if dice.percent(50) && orders.role == Role::Roams {
        cohort = COHORT;
        ttls = [ttls[dice.index(4)]; 4];
    }
    if orders.role.is_long() {
        ttls = LONG_TTLS;
    }
    // Connects when it can: the server may be paused, or cut us off in the middle of it.
    let longest = Duration::from_millis(orders.ttls.into_iter().chain(ttls).max().unwrap());
    let builder = LockManager::builder(&job.url).max_ttl(longest).io_timeout(IO_TIMEOUT).cohort(cohort);
    let locks = builder.start().unwrap();
    let (next, ticker) = (Rc::new(Cell::new(0)), Ticker::start());
    let means = orders.role.means();
    let tasks = LocalSet::new();
    for number in 0..means.callers {
        let caller = Caller {
            locks: locks.clone(),
            dice: Dice::new(orders.seed.wrapping_add(number << 32)),
            keys: (means.first_key, means.keys),
            ttls,
            overrun: orders.overrun,
            next: Rc::clone(&next),
            ticker: ticker.clone(),
        };
        let ended = ended.clone();
        tasks.spawn_local(async move {
            match orders.role {
                Role::Roams => caller.roams(ended).await,
                Role::Keeps => caller.keeps(ended, 0).await,
                Role::Extends => caller.keeps(ended, 30).await,
                Role::Crowds => caller.crowds(ended, [20, 60, 250, 1000]).await,
                Role::Queues => caller.crowds(ended, [250, 1000, 1000, 1000]).await,
                Role::Bursts => caller.bursts(ended).await,
                Role::Drops => caller.drops(ended).await,
            }
        });
    }
    runtime.block_on(async {
        tokio::select! {
            () = tasks => {}
            () = ticker.ticks() => {}
        }
    });
    // Whatever is left is what the driver looks for.
    let _ = locks.shutdown_blocking(LIMIT);
}
