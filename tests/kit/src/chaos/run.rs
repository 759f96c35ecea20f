//! A run: it starts, freezes and kills worker processes, injects faults at random, and collects the
//! reports.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc::Receiver;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use redlocked::{LockError, LockManager, LockRequest};

use crate::chaos::checker::Hold;
use crate::chaos::checker::history::History;
use crate::chaos::environment::{Environment, Sample};
use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::chaos::workload::caller::key;
use crate::chaos::workload::fleet::{Fleet, Role};
use crate::chaos::workload::foreign_client::ForeignClient;
use crate::chaos::workload::worker::{LONG_TTLS, WorkerParams};
use crate::{LIMIT, Worker, now, runtime};

/// The keys of short locks, which a foreign client takes, too.
const MIXED_KEYS: u64 = 4;

/// A run: the servers, the workers, and their reports so far.
pub struct Chaos<G> {
    /// The servers.
    pub environment: G,
    random: Random,
    fleet: Fleet,
    workers: Vec<Running>,
    absent: Vec<(Instant, Role)>,
    started: usize,
    foreign_holds: u64,
    /// The faults of servers and workers.
    pub log: EventLog,
    /// The reports of the workers, and the violations in them.
    pub history: History,
}

struct Running {
    worker: Worker,
    role: Role,
    /// Its number among all workers of the run.
    number: usize,
    frozen_until: Option<Instant>,
}

impl<G: Environment> Chaos<G> {
    /// Starts the fleet of the environment.
    pub fn new(environment: G, seed: u64) -> Self {
        let fleet = environment.fleet();
        let mut chaos = Self {
            environment,
            random: Random::new(seed),
            fleet,
            workers: Vec::new(),
            absent: Vec::new(),
            started: 0,
            foreign_holds: 0,
            log: EventLog::default(),
            history: History::default(),
        };
        for role in fleet.processes() {
            chaos.start_worker(role);
        }
        chaos.history.expect(chaos.environment.loss_detection(), chaos.environment.hands_over_within());
        if chaos.environment.delays_answers() {
            chaos.history.calls.expect_delays();
        }
        chaos.history.liveness.used_within = chaos.environment.used_within();
        chaos
    }

    /// No worker is frozen or killed.
    #[must_use]
    pub fn kind(mut self) -> Self {
        (self.fleet.freezes, self.fleet.kills) = (0, 0);
        self
    }

    fn max_ttl(&self) -> u64 {
        let keeps = self.fleet.processes().any(Role::is_long);
        let long: &[u64] = if keeps { &LONG_TTLS } else { &[] };
        self.environment.ttls().iter().chain(long).copied().max().unwrap_or(0)
    }

    fn start_worker(&mut self, role: Role) {
        let (ttls, overrun) = (self.environment.ttls(), self.environment.overrun());
        let params = WorkerParams { role, seed: self.random.next(), ttls, overrun };
        self.started += 1;
        let worker = Worker::start(
            "worker",
            "chaos",
            &self.environment.address(&mut self.random),
            &params.to_numbers(),
        );
        self.workers.push(Running { worker, role, number: self.started, frozen_until: None });
    }

    /// Goes on until that time has passed, or until `enough`, which is checked now and then; then
    /// lets all calls end.
    pub fn run(&mut self, lasts: Duration, enough: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        let foreign_client = self.go_on(|_| start.elapsed() < lasts, enough);
        self.thaw(true);
        self.environment.heal(true, &mut self.log);
        let foreign = foreign_client.map(|(foreign_client, holds)| {
            foreign_client.end();
            holds
        });
        self.dismiss_all();
        self.listen(foreign.as_ref());
        self.settle(u64::MAX);
    }

    /// Goes on until `found`, which is checked now and then; then ends at once, and kills all workers.
    /// False when so many calls have ended before.
    pub fn search(&mut self, calls: u64, mut found: impl FnMut(&Self) -> bool) -> bool {
        let mut is_found = false;
        let foreign_client = self.go_on(
            |chaos| chaos.history.calls.count() < calls,
            |chaos| {
                is_found = found(chaos);
                is_found
            },
        );
        for mut running in std::mem::take(&mut self.workers) {
            running.worker.kill();
            self.history.record(running.number, running.worker.last_words());
            self.history.on_gone(running.number);
        }
        self.environment.heal(true, &mut self.log);
        if let Some((foreign_client, _)) = foreign_client {
            foreign_client.end();
        }
        self.settle(u64::MAX);
        is_found
    }

    fn go_on(
        &mut self,
        goes_on: impl Fn(&Self) -> bool,
        mut enough: impl FnMut(&Self) -> bool,
    ) -> Option<(ForeignClient, Receiver<Hold>)> {
        /// No hold is longer, and no report comes later.
        const LONG: u64 = 120_000_000_000;
        let connect = self.environment.foreign_client();
        let foreign_client =
            connect.map(|connect| ForeignClient::start(connect, MIXED_KEYS, self.random.next()));
        let mut asked = Instant::now();
        while goes_on(self) {
            let (from, to) = self.fleet.pace;
            thread::sleep(Duration::from_millis(self.random.between(from, to)));
            self.thaw(false);
            self.environment.heal(false, &mut self.log);
            self.replace();
            self.inject_fault();
            if let Some(role) = self.environment.kills() {
                for victim in (0..self.workers.len()).rev() {
                    if self.workers[victim].role == role {
                        self.kill(victim);
                    }
                }
            }
            let sample = self.environment.sample();
            self.listen(foreign_client.as_ref().map(|(_, holds)| holds));
            self.deliver_tickets();
            for keys in self.environment.disturbances() {
                self.history.liveness.disturbed(keys.as_deref());
            }
            self.watch(sample.as_ref());
            if asked.elapsed() > Duration::from_millis(500) {
                asked = Instant::now();
                self.history.calls.look_at_all(now());
                self.settle(now().saturating_sub(LONG));
                if enough(self) {
                    break;
                }
            }
        }
        foreign_client
    }

    fn settle(&mut self, until: u64) {
        self.history.losses = self.environment.losses().to_vec();
        self.history.settle(until, &self.log);
    }

    /// Lets all calls end. One that does not is late, and its worker is killed.
    fn dismiss_all(&mut self) {
        for running in &mut self.workers {
            running.worker.dismiss();
        }
        let start = Instant::now();
        while !self.workers.iter_mut().all(|running| running.worker.has_ended())
            && start.elapsed() < 2 * LIMIT
        {
            thread::sleep(Duration::from_millis(10));
            self.listen(None);
            self.history.calls.look_at_all(now());
        }
        for mut running in std::mem::take(&mut self.workers) {
            if running.worker.has_ended() {
                running.worker.ends();
            } else {
                self.log.add("workers that did not end", running.number);
                running.worker.kill();
            }
            self.history.record(running.number, running.worker.last_words());
            self.history.on_gone(running.number);
        }
    }

    fn inject_fault(&mut self) {
        let victim = self.random.index(self.workers.len());
        let Fleet { freezes, kills, .. } = self.fleet;
        match self.random.between(0, 100) {
            which if which < freezes && self.fleet.sticks.is_some() => self.freeze(self.with_most_calls()),
            which if which < freezes => self.freeze(victim),
            which if which < freezes + kills => {
                // Mostly it is the one with the most calls.
                let most = self.random.percent(80);
                self.kill(if most { self.with_most_calls() } else { victim });
            }
            _ => self.environment.inject_fault(&mut self.random, &mut self.log),
        }
    }

    fn with_most_calls(&self) -> usize {
        let calls = |running: &Running| self.history.calls.waiting_of(running.number);
        let numbered = self.workers.iter().enumerate();
        numbered.max_by_key(|(_, running)| calls(running)).map_or(0, |(number, _)| number)
    }

    fn kill(&mut self, victim: usize) {
        let running = &self.workers[victim];
        if !running.role.spec().may_die
            || self.workers.len() < 3
            || self.history.calls.may_hang(running.number, now())
        {
            return;
        }
        let mut running = self.workers.swap_remove(victim);
        running.worker.kill();
        self.log.add("workers killed", running.number);
        self.history.record(running.number, running.worker.last_words());
        self.history.on_gone(running.number);
        let back = Instant::now() + Duration::from_millis(self.fleet.absence);
        self.absent.push((back, running.role));
    }

    /// Starts workers in the place of killed ones.
    fn replace(&mut self) {
        for role in self.absent.extract_if(.., |(back, _)| *back <= Instant::now()).collect::<Vec<_>>() {
            self.start_worker(role.1);
        }
    }

    fn watch(&mut self, sample: Option<&Sample>) {
        let (workers, keys) = (&self.workers, self.fleet.keys());
        let worker_of = |process| {
            let found = workers.iter().find(|running| running.worker.process() == process);
            found.map(|running| running.number)
        };
        self.history.watch(sample, &keys, worker_of, &self.log);
    }

    /// Freezes a worker, mostly briefly, sometimes for longer than every lease.
    fn freeze(&mut self, victim: usize) {
        let frozen = self.workers.iter().filter(|running| running.frozen_until.is_some()).count();
        let most = [200, 500, 500, 2500][self.random.index(4)];
        let lasts = match self.fleet.sticks {
            Some(lasts) => self.random.between(lasts / 2, lasts),
            None => self.random.between(50, most),
        };
        let lasts = Duration::from_millis(lasts);
        let most_frozen = self.workers.len() / 3;
        let running = &mut self.workers[victim];
        if frozen < most_frozen && running.frozen_until.is_none() {
            self.history.calls.stands_still(running.number, now());
            running.worker.freeze();
            running.frozen_until = Some(Instant::now() + lasts);
            self.log.add("workers frozen", format!("{} for {lasts:?}", running.number));
        }
    }

    fn thaw(&mut self, all: bool) {
        for running in &mut self.workers {
            if running.frozen_until.is_some_and(|until| all || until <= Instant::now()) {
                running.worker.thaw();
                running.frozen_until = None;
                self.history.calls.goes_on(running.number, now());
            }
        }
    }

    fn listen(&mut self, foreign: Option<&Receiver<Hold>>) {
        for running in &self.workers {
            self.history.record(running.number, running.worker.said());
        }
        for hold in foreign.into_iter().flat_map(Receiver::try_iter) {
            self.foreign_holds += 1;
            self.history.add((0, self.foreign_holds), hold);
        }
    }

    /// A ticket goes to one process of the role, frozen or not, and sometimes to a second one, which
    /// is to get nothing for it.
    fn deliver_tickets(&mut self) {
        for ticket in self.history.tickets.take() {
            let mut takers: Vec<&mut Worker> = self
                .workers
                .iter_mut()
                .filter(|one| one.role == Role::Travels)
                .map(|one| &mut one.worker)
                .collect();
            let copies = if self.random.percent(30) { 2 } else { 1 };
            for _ in 0..copies.min(takers.len()) {
                takers.swap_remove(self.random.index(takers.len())).tell(&ticket);
            }
        }
    }

    /// Keys that are left on the servers and should not be. A killed holder's lock ends with its
    /// ttl. A killed waiter's place in the queue stays until a lock is handed over to one behind
    /// it, or for a minute. What a leader that was killed has announced ends less than a ttl after
    /// its lock.
    pub fn leaks(&mut self) -> Vec<String> {
        let longest = Duration::from_millis(self.max_ttl());
        let mut left = self.left_after(longest, |name| !name.contains("%queue"));
        left.extend(self.left_after(longest, |name| name.contains("%queue%leader")));
        let locks = LockManager::builder(self.environment.address(&mut self.random))
            .max_ttl(longest)
            .connect_lazy()
            .unwrap();
        for number in self.fleet.keys() {
            let request = locks.lock(key(number)).ttl(longest).wait(LIMIT);
            if let Err(error) = runtime().block_on(handed_over(request)) {
                left.push(format!("{} cannot be taken: {error}", key(number)));
            }
            // It outlasts a run. A quorum has none, and refuses.
            let _ = locks.clear_permits_blocking(&key(number));
        }
        // The record of a tick outlasts a run.
        left.extend(self.left_after(Duration::ZERO, |name| !name.contains("%queue%tick")));
        left.sort_unstable();
        left.dedup();
        left
    }

    /// Lists what is left of that kind, after that time, on a busy machine.
    fn left_after(&self, time: Duration, is_one: impl Fn(&str) -> bool) -> Vec<String> {
        let (start, limit) = (Instant::now(), time + Duration::from_secs(2));
        loop {
            let left: Vec<String> = self.environment.keys().into_iter().filter(|name| is_one(name)).collect();
            if left.is_empty() || start.elapsed() > limit {
                return left;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Takes the lock, and hands it over to a second caller.
async fn handed_over(request: LockRequest) -> Result<(), LockError> {
    let guard = request.clone().acquire().await?;
    let mut next = pin!(request.acquire());
    poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await;
    guard.release().await?;
    next.await?.release().await?;
    Ok(())
}
