//! Worker processes, and everything that goes wrong around them, thrown by dice.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::checker::{History, Hold};
use super::dice::Dice;
use super::stranger::Stranger;
use super::support::{LIMIT, Line, RedisServer, Worker, eventually};
use super::worker::{Orders, key};

const WORKERS: usize = 8;
const KEYS: u64 = 4;

/// The name of our own connections, which nobody cuts.
const OURS: &str = "driver";

/// What was done to whom, for the report.
#[derive(Default, Debug)]
pub(crate) struct Deeds {
    pub(crate) frozen: u32,
    pub(crate) killed: u32,
    pub(crate) cut: u32,
    pub(crate) scripts_flushed: u32,
    pub(crate) paused: u32,
}

pub(crate) struct Chaos<'a> {
    server: &'a RedisServer,
    /// Where the workers connect to.
    url: String,
    dice: Dice,
    client: redis::Connection,
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

impl<'a> Chaos<'a> {
    pub(crate) fn new(server: &'a RedisServer, url: String, seed: u64) -> Self {
        let mut chaos = Self {
            server,
            url,
            dice: Dice::new(seed),
            client: client(server),
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

    fn start_worker(&mut self) {
        let orders = Orders { seed: self.dice.next(), keys: KEYS };
        self.started += 1;
        let worker = Worker::start("chaos", &self.url, &orders.to_numbers());
        self.workers.push(Running { worker, number: self.started, frozen_until: None });
    }

    /// Goes on until that time has passed, or `enough`, which is asked now and then; then ends in peace.
    pub(crate) fn run(&mut self, lasts: Duration, mut enough: impl FnMut(&History) -> bool) {
        let start = Instant::now();
        let (stranger, holds) = Stranger::start(client(self.server), KEYS, self.dice.next());
        let mut asked = start;
        while start.elapsed() < lasts {
            thread::sleep(Duration::from_millis(self.dice.between(10, 60)));
            self.thaw(false);
            self.misbehave();
            self.listen(&holds);
            if asked.elapsed() > Duration::from_millis(500) {
                asked = Instant::now();
                if enough(&self.history) {
                    break;
                }
            }
        }
        stranger.end();
        self.thaw(true);
        for running in &mut self.workers {
            running.worker.dismiss();
        }
        for running in &mut self.workers {
            running.worker.ends();
            let lines = running.worker.last_words();
            record(&mut self.history, running.number, lines);
        }
        self.listen(&holds);
        self.workers.clear();
    }

    fn misbehave(&mut self) {
        let victim = self.dice.index(self.workers.len());
        match self.dice.between(0, 100) {
            0..40 => self.freeze(victim),
            40..48 => {
                let mut running = self.workers.swap_remove(victim);
                running.worker.kill();
                let lines = running.worker.last_words();
                record(&mut self.history, running.number, lines);
                self.deeds.killed += 1;
                self.start_worker();
            }
            48..72 => self.cut(),
            72..92 => {
                let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut self.client).unwrap();
                self.deeds.scripts_flushed += 1;
            }
            _ => {
                let lasts = self.dice.between(10, 200);
                let _: () = redis::cmd("CLIENT").arg("PAUSE").arg(lasts).query(&mut self.client).unwrap();
                self.deeds.paused += 1;
            }
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

    /// Cuts one connection of a worker, whichever it is.
    fn cut(&mut self) {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut self.client).unwrap();
        let ours = format!(" name={OURS} ");
        let ids: Vec<&str> = list
            .lines()
            .filter(|line| !line.contains(&ours))
            .filter_map(|line| line.strip_prefix("id=")?.split(' ').next())
            .collect();
        if !ids.is_empty() {
            let id = ids[self.dice.index(ids.len())];
            let mut kill = redis::cmd("CLIENT");
            self.deeds.cut += kill.arg("KILL").arg("ID").arg(id).query::<u32>(&mut self.client).unwrap();
        }
    }

    fn listen(&mut self, foreign: &Receiver<Hold>) {
        for running in &self.workers {
            record(&mut self.history, running.number, running.worker.said());
        }
        for hold in foreign.try_iter() {
            let number = u64::try_from(self.history.holds.len()).unwrap();
            self.history.holds.insert((0, number), hold);
        }
    }

    /// Waiters that were killed leave a place in the queue behind, until the next one asks; then nothing is left.
    pub(crate) fn nothing_is_left(&self) {
        let locks = redlocked::LockManager::connect_blocking(&self.url).unwrap();
        for number in 0..KEYS {
            locks.lock(key(number)).wait(LIMIT).run_blocking(|_| ()).unwrap();
        }
        eventually("no key is left but the clock", || self.server.keys().is_empty());
    }
}

fn client(server: &RedisServer) -> redis::Connection {
    let mut client = server.client();
    let _: () = redis::cmd("CLIENT").arg("SETNAME").arg(OURS).query(&mut client).unwrap();
    client
}

fn record(history: &mut History, worker: usize, lines: Vec<Line>) {
    for Line { word, numbers } in lines {
        let name = (worker, numbers[0]);
        if let ("entered", &[_, key, fence, entered, deadline]) = (word.as_str(), &numbers[..]) {
            let fence = Some(fence);
            let hold = Hold { key, fence, entered, seen: entered, deadline, ..Hold::default() };
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
