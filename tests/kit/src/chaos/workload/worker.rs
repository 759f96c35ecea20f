//! A worker process, from its start to its end.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use redlocked::LockManager;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::chaos::random::Random;
use crate::chaos::workload::caller::Caller;
use crate::chaos::workload::fleet::{ROLES, Role};
use crate::chaos::workload::report::IO_TIMEOUT;
use crate::chaos::workload::ticker::Ticker;
use crate::{Job, LIMIT, listen};

/// How often in a row a process passes a lock on.
const COHORT: u32 = 3;

/// The ttls of locks that are kept, in milliseconds: renewed much later than a claim ends.
pub(crate) const LONG_TTLS: [u64; 4] = [6000, 12_000, 12_000, 12_000];

/// The arguments of a worker process.
#[derive(Clone, Copy)]
pub struct WorkerParams {
    pub(crate) role: Role,
    pub(crate) seed: u64,
    /// The ttls in milliseconds, to choose from.
    pub(crate) ttls: [u64; 4],
    /// The longest that a caller that ignores its lease stays, in milliseconds.
    pub(crate) overrun: u64,
}

impl WorkerParams {
    pub(crate) fn to_numbers(self) -> [u64; 7] {
        let [a, b, c, d] = self.ttls;
        [self.role.number(), self.seed, a, b, c, d, self.overrun]
    }

    fn from_numbers(numbers: &[u64]) -> Self {
        let &[role, seed, a, b, c, d, overrun] = numbers else { panic!("params are {numbers:?}") };
        let role = ROLES[usize::try_from(role).unwrap()].role;
        Self { role, seed, ttls: [a, b, c, d], overrun }
    }
}

/// The main of a worker process: it takes locks until its standard input ends.
pub fn work(job: &Job) {
    let params = WorkerParams::from_numbers(&job.numbers);
    let (end, ended) = watch::channel(false);
    let (arrived, tickets) = unbounded_channel();
    let told = move |words| {
        let _ = arrived.send(words);
    };
    listen(told, move || {
        let _ = end.send(true);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut random = Random::new(params.seed);
    let (mut cohort, mut ttls) = (0, params.ttls);
    // Every other process passes locks on among its tasks, which takes the same ttl.
    if random.percent(50) && params.role == Role::Mixed {
        cohort = COHORT;
        ttls = [ttls[random.index(4)]; 4];
    }
    if params.role.is_long() {
        ttls = LONG_TTLS;
    }
    // Connects when it can: the server may be paused, or cut us off in the middle of it.
    let longest = Duration::from_millis(params.ttls.into_iter().chain(ttls).max().unwrap());
    let builder = LockManager::builder(&job.url).max_ttl(longest).io_timeout(IO_TIMEOUT).cohort(cohort);
    let locks = builder.connect_lazy().unwrap();
    let (next, ticker) = (Rc::new(Cell::new(0)), Ticker::start());
    let spec = params.role.spec();
    let tasks = LocalSet::new();
    let caller = |number: u64| Caller {
        locks: locks.clone(),
        random: Random::new(params.seed.wrapping_add(number << 32)),
        keys: (spec.first_key, spec.keys),
        ttls,
        overrun: params.overrun,
        next: Rc::clone(&next),
        ticker: ticker.clone(),
    };
    tasks.spawn_local(caller(spec.callers).redeems(tickets));
    for number in 0..spec.callers {
        let caller = caller(number);
        let (ended, url) = (ended.clone(), job.url.clone());
        tasks.spawn_local(async move {
            match params.role {
                Role::Mixed => caller.roams(ended).await,
                Role::LongHolds => caller.keeps(ended, [20, 500, 2500, 3500], 0).await,
                Role::ShortHolds => caller.keeps(ended, [20, 100, 400, 440], 0).await,
                Role::TtlChanges => caller.keeps(ended, [20, 500, 2500, 3500], 30).await,
                Role::Crowds => caller.crowds(ended, [20, 60, 250, 1000]).await,
                Role::LongQueue => caller.crowds(ended, [250, 1000, 1000, 1000]).await,
                Role::Bursts => caller.bursts(ended).await,
                Role::Drops => caller.drops(ended).await,
                Role::Blocks => caller.blocks(ended).await,
                Role::Impatient => caller.tries(ended).await,
                Role::Waits => caller.waits(ended).await,
                Role::Rests => caller.rests(ended).await,
                Role::EndsRefused => caller.ends_refused(ended, &url).await,
                Role::Travels => caller.gives_away(ended).await,
                Role::Shares => caller.shares(ended).await,
                Role::Ticks => caller.ticks(ended).await,
                Role::Once => caller.asks_for_results(ended).await,
            }
        });
    }
    runtime.block_on(async {
        tokio::select! {
            () = tasks => {}
            () = ticker.ticks() => {}
        }
    });
    // The run looks for keys that are left.
    let _ = locks.shutdown_blocking(LIMIT);
}
