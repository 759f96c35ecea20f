//! Worker processes, and everything that goes wrong around them, thrown by dice.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::checker::{History, Hold};
use super::dice::Dice;
use super::ground::Ground;
use super::stranger::Stranger;
use super::support::{LIMIT, Line, Worker, eventually};
use super::worker::{Orders, key};

const WORKERS: usize = 8;
pub(crate) const KEYS: u64 = 4;

/// What was done to whom, for the report.
#[derive(Default, Debug)]
#[allow(dead_code, reason = "read by whoever reads the report")]
pub(crate) struct Deeds {
    pub(crate) frozen: u32,
    pub(crate) killed: u32,
    pub(crate) cut: u32,
    pub(crate) scripts_flushed: u32,
    pub(crate) paused: u32,
    pub(crate) restarted: u32,
    pub(crate) stopped: u32,
    pub(crate) parted: u32,
    pub(crate) squatted: u32,
    pub(crate) stepped: u32,
}

pub(crate) struct Chaos<G> {
    pub(crate) ground: G,
    dice: Dice,
    /// Whether something happens to the workers themselves.
    unkind: bool,
    workers: Vec<Running>,
    started: usize,
    pub(crate) deeds: Deeds,
    pub(crate) history: History,
}

struct Running {
    worker: Worker,
    /// Which of all workers that there ever were.
    number: usize,
    frozen_until: Option<Instant>,
}

impl<G: Ground> Chaos<G> {
    pub(crate) fn new(ground: G, seed: u64) -> Self {
        let mut chaos = Self {
            ground,
            dice: Dice::new(seed),
            unkind: true,
            workers: Vec::new(),
            started: 0,
            deeds: Deeds::default(),
            history: History::default(),
        };
        for _ in 0..WORKERS {
            chaos.start_worker();
        }
        chaos
    }

    /// No worker is frozen or killed.
    pub(crate) fn kind(mut self) -> Self {
        self.unkind = false;
        self
    }

    fn start_worker(&mut self) {
        let (ttls, overrun) = (self.ground.ttls(), self.ground.overrun());
        let orders = Orders { seed: self.dice.next(), keys: KEYS, ttls, overrun };
        self.started += 1;
        let worker = Worker::start("chaos", &self.ground.address(&mut self.dice), &orders.to_numbers());
        self.workers.push(Running { worker, number: self.started, frozen_until: None });
    }

    /// Goes on until that time has passed, or `enough`, which is asked now and then; then ends in peace.
    pub(crate) fn run(&mut self, lasts: Duration, mut enough: impl FnMut(&History) -> bool) {
        let start = Instant::now();
        let stranger = self.ground.client_of_another_kind();
        let stranger = stranger.map(|client| Stranger::start(client, KEYS, self.dice.next()));
        let mut asked = start;
        while start.elapsed() < lasts {
            thread::sleep(Duration::from_millis(self.dice.between(10, 60)));
            self.thaw(false);
            self.ground.heal(false);
            self.misbehave();
            self.listen(stranger.as_ref().map(|(_, holds)| holds));
            if asked.elapsed() > Duration::from_millis(500) {
                asked = Instant::now();
                if enough(&self.history) {
                    break;
                }
            }
        }
        let foreign = stranger.map(|(stranger, holds)| {
            stranger.end();
            holds
        });
        self.thaw(true);
        self.ground.heal(true);
        for running in &mut self.workers {
            running.worker.dismiss();
        }
        for running in &mut self.workers {
            running.worker.ends();
            let lines = running.worker.last_words();
            record(&mut self.history, running.number, lines);
        }
        self.listen(foreign.as_ref());
        self.workers.clear();
        self.history.steps = self.ground.steps().to_vec();
    }

    fn misbehave(&mut self) {
        let victim = self.dice.index(self.workers.len());
        match self.dice.between(0, 100) {
            0..40 if self.unkind => self.freeze(victim),
            40..48 if self.unkind => {
                let mut running = self.workers.swap_remove(victim);
                running.worker.kill();
                let lines = running.worker.last_words();
                record(&mut self.history, running.number, lines);
                self.deeds.killed += 1;
                self.start_worker();
            }
            0..48 => {}
            _ => self.ground.misbehave(&mut self.dice, &mut self.deeds),
        }
    }

    /// Mostly short, some long enough to outlast every lease.
    fn freeze(&mut self, victim: usize) {
        let frozen = self.workers.iter().filter(|running| running.frozen_until.is_some()).count();
        let most = [200, 500, 500, 2500][self.dice.index(4)];
        let lasts = Duration::from_millis(self.dice.between(50, most));
        let running = &mut self.workers[victim];
        if frozen < WORKERS / 3 && running.frozen_until.is_none() {
            running.worker.freeze();
            running.frozen_until = Some(Instant::now() + lasts);
            self.deeds.frozen += 1;
        }
    }

    fn thaw(&mut self, all: bool) {
        for running in &mut self.workers {
            if running.frozen_until.is_some_and(|until| all || until <= Instant::now()) {
                running.worker.thaw();
                running.frozen_until = None;
            }
        }
    }

    fn listen(&mut self, foreign: Option<&Receiver<Hold>>) {
        for running in &self.workers {
            record(&mut self.history, running.number, running.worker.said());
        }
        for hold in foreign.into_iter().flat_map(Receiver::try_iter) {
            let number = u64::try_from(self.history.holds.len()).unwrap();
            self.history.holds.insert((0, number), hold);
        }
    }

    /// Waiters that were killed leave a place in the queue behind, until the next one asks; then nothing is left.
    pub(crate) fn nothing_is_left(&mut self) {
        let locks = redlocked::LockManager::connect_blocking(&self.ground.address(&mut self.dice)).unwrap();
        let ttl = Duration::from_millis(self.ground.ttls()[0]);
        for number in 0..KEYS {
            locks.lock(key(number)).ttl(ttl).wait(LIMIT).run_blocking(|_| ()).unwrap();
        }
        eventually("no key is left but the clock", || self.ground.keys().is_empty());
    }
}

fn record(history: &mut History, worker: usize, lines: Vec<Line>) {
    for Line { word, numbers } in lines {
        let name = (worker, numbers[0]);
        if let ("entered", &[_, key, fence, asked, entered, deadline]) = (word.as_str(), &numbers[..]) {
            let fence = Some(fence);
            let hold = Hold { key, fence, asked, entered, seen: entered, deadline, ..Hold::default() };
            assert!(history.holds.insert(name, hold).is_none(), "{name:?} enters twice");
            continue;
        }
        let hold = history.holds.get_mut(&name).unwrap_or_else(|| panic!("{name:?} has not entered"));
        match (word.as_str(), &numbers[..]) {
            ("seen", &[_, at, deadline]) => (hold.seen, hold.deadline) = (at, deadline),
            ("write", &[_, at]) => hold.writes.push(at),
            ("left", &[_, at]) => hold.left = Some(at),
            other => panic!("a worker said {other:?}"),
        }
    }
}
