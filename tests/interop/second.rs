//! A second client, written from `docs/design.md` alone, beside ours: processes of both on the same
//! keys, some of them frozen, killed and cut off. What they do is judged from outside: their
//! reports, and the commands of the server.
//!
//! `CHAOS_SECONDS` makes it longer, `CHAOS_SEED` repeats the random choices.

use std::cell::Cell;
use std::collections::HashMap;
use std::env;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kit::chaos::random::Random;
use kit::{Job, LIMIT, Line, RedisServer, Worker, eventually, listen, now, runtime, say};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use redlocked::{LockError, LockGuard, LockManager, distributed_lock};
use tokio::task::LocalSet;

use super::order::{Disturbances, Monitor, served};
use super::peer;

const KEYS: u64 = 10;
const PROCESSES: usize = 20;
const CALLERS: u64 = 3;

/// How tickets travel between the processes of both clients, with the number of the key in front.
const TICKETS: &str = "%tickets";

/// Stands for a client of a newer version among the processes.
const NEWER: usize = usize::MAX;

/// In nanoseconds. Who holds a lock for longer has renewed it.
const LONGEST_TTL: u64 = 1_500_000_000;

/// How long a ticket lasts.
const LASTS: Duration = Duration::from_millis(600);

/// A lease that a process had when it was disturbed, and the claim behind it, end so much later at
/// the latest.
const AFTERWARDS: u64 = 2_500_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Kind {
    Ours,
    Second,
}

struct Process {
    worker: Worker,
    kind: Kind,
    number: usize,
    frozen: Option<(u64, Instant)>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    key: u64,
    /// 0: it drew none.
    fence: u64,
    entered: u64,
    seen: u64,
    process: usize,
}

struct Fleet<'a> {
    server: &'a RedisServer,
    random: Random,
    processes: Vec<Process>,
    kinds: Vec<(u32, Kind)>,
    holds: HashMap<(usize, u64), Hold>,
    disturbances: Disturbances,
    /// How many were frozen, killed, cut off.
    faults: [u32; 3],
    /// How often a client of a newer version had a lock.
    newer: u32,
    /// How many tickets each kind has redeemed.
    redeemed: HashMap<Kind, u32>,
}

#[test]
fn with_the_second_client_at_most_one_is_inside_and_who_comes_first_is_served_first() {
    let server = RedisServer::start();
    if peer::second(&server, &["0", "0", "1"].map(str::to_owned)).is_none() {
        return;
    }
    let number = |name, default| env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seconds, seed) = (number("CHAOS_SECONDS", 12), number("CHAOS_SEED", RandomState::new().hash_one(0)));
    let monitor = Monitor::of(&server);
    let mut fleet = Fleet {
        server: &server,
        random: Random::new(seed),
        processes: Vec::new(),
        kinds: Vec::new(),
        holds: HashMap::new(),
        disturbances: Disturbances::default(),
        faults: [0; 3],
        newer: 0,
        redeemed: HashMap::new(),
    };
    for number in 0..PROCESSES {
        fleet.start(if number % 2 == 0 { Kind::Ours } else { Kind::Second });
    }
    let start = Instant::now();
    // On a busy machine it goes on until there is enough to look at.
    while start.elapsed() < Duration::from_secs(seconds)
        || (!fleet.has_enough() && start.elapsed() < Duration::from_secs(seconds) + 2 * LIMIT)
    {
        fleet.goes_on();
    }
    fleet.ends();
    let enough = fleet.has_enough();
    let found = served(&monitor.end(), "lock:k", &mut fleet.disturbances);
    let mut handed = HashMap::<_, u32>::new();
    let kinds: HashMap<u32, Kind> = fleet.kinds.iter().copied().collect();
    for ((from, to), count) in &found.handed {
        *handed.entry((kinds[from], kinds[to])).or_default() += count;
    }
    let mut travelled = HashMap::<_, u32>::new();
    for ((from, to), count) in &found.travelled {
        *travelled.entry((kinds[from], kinds[to])).or_default() += count;
    }
    let [ours, second] = [Kind::Ours, Kind::Second].map(|kind| {
        let processes = fleet.kinds.iter().filter(|(_, its)| *its == kind).map(|(process, _)| process);
        let connections = processes.filter_map(|process| found.connections.get(process)).sum::<u32>();
        format!("{} holds over {connections} connections", fleet.holds_of(kind))
    });
    let _ = writeln!(
        std::io::stderr(),
        "CHAOS_SEED={seed}: ours: {ours}; the second: {second}; {} processes, {:?} frozen, killed, cut off; {} holds of a newer version; handed over: {handed:?}; \
         travelled: {travelled:?}; {} heads came too late",
        fleet.kinds.len(),
        fleet.faults,
        fleet.newer,
        found.late_heads
    );
    let found = [overlaps_and_fences(fleet.holds.into_values().collect()), found.passed].concat();
    assert!(found.is_empty(), "CHAOS_SEED={seed}: {}", found.join("\n\n"));
    assert!(enough, "too little to look at, or one of both held no lock for longer than its ttl");
    for (from, to) in [(Kind::Ours, Kind::Second), (Kind::Second, Kind::Ours), (Kind::Second, Kind::Second)] {
        assert!(handed.get(&(from, to)).is_some_and(|count| *count > 5), "{from:?} to {to:?}: {handed:?}");
    }
    for (from, to) in [(Kind::Ours, Kind::Second), (Kind::Second, Kind::Ours)] {
        assert!(
            travelled.get(&(from, to)).is_some_and(|count| *count > 2),
            "{from:?} to {to:?}: {travelled:?}"
        );
    }
}

/// Microseconds of the clock that the server's is.
fn wall() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

impl Fleet<'_> {
    fn start(&mut self, kind: Kind) {
        let (seed, number) = (self.random.between(0, u64::MAX), self.kinds.len());
        let worker = match kind {
            Kind::Ours => Worker::start("second::worker", "second", &self.server.url(), &[seed]),
            Kind::Second => {
                let numbers = [seed, CALLERS, KEYS].map(|number| number.to_string());
                peer::second(self.server, &numbers).unwrap()
            }
        };
        self.kinds.push((worker.process(), kind));
        self.processes.push(Process { worker, kind, number, frozen: None });
    }

    fn goes_on(&mut self) {
        sleep(Duration::from_millis(self.random.between(20, 80)));
        for process in &mut self.processes {
            if let Some((since, _)) = process.frozen.take_if(|(_, until)| *until <= Instant::now()) {
                process.worker.thaw();
                self.disturbances.add(process.worker.process(), since, wall() + AFTERWARDS);
            }
        }
        let victim = self.random.index(self.processes.len());
        match self.random.between(0, 100) {
            0..30 => self.freezes(victim),
            30..36 => self.kills(victim),
            36..42 => self.cuts_off(victim),
            42..62 => self.meets_a_newer_version(),
            _ => {}
        }
        self.listens();
    }

    fn freezes(&mut self, victim: usize) {
        let lasts = [200, 500, 2500][self.random.index(3)];
        let lasts = Duration::from_millis(self.random.between(50, lasts));
        let frozen = self.processes.iter().filter(|process| process.frozen.is_some()).count();
        let process = &mut self.processes[victim];
        if process.frozen.is_none() && frozen < 4 {
            process.frozen = Some((wall(), Instant::now() + lasts));
            process.worker.freeze();
            self.faults[0] += 1;
        }
    }

    fn kills(&mut self, victim: usize) {
        let mut process = self.processes.swap_remove(victim);
        let since = process.frozen.map_or_else(wall, |(since, _)| since);
        self.disturbances.add(process.worker.process(), since, u64::MAX);
        process.worker.kill();
        self.hears(process.number, process.worker.process(), process.worker.last_words());
        self.faults[1] += 1;
        self.start(process.kind);
    }

    fn cuts_off(&mut self, victim: usize) {
        let process = self.processes[victim].worker.process();
        let (list, name) = (self.server.run::<String>("CLIENT LIST"), format!(":{process} "));
        let Some(line) = list.lines().find(|line| line.contains(" name=redlocked:") && line.contains(&name))
        else {
            return;
        };
        let id = line.trim_start_matches("id=").split(' ').next().unwrap();
        let since = wall();
        let _: u32 = self.server.run(&format!("CLIENT KILL ID {id}"));
        self.disturbances.add(process, since, wall() + AFTERWARDS);
        self.faults[2] += 1;
    }

    /// What version 1 leaves to a later one: a lock whose value is no token, and a push of another
    /// kind, to the first waiter.
    fn meets_a_newer_version(&mut self) {
        const NEWER_LASTS: u64 = 200;
        let key = self.random.between(0, KEYS);
        let head: Vec<String> = self.server.run(&format!("ZRANGE lock:k{key}%queue 0 0"));
        if let Some([token, _, inbox]) =
            head.first().map(|head| head.split('|').collect::<Vec<_>>()).as_deref()
        {
            for push in
                [format!("later|{token}|1|2|3|lock:k{key}"), format!("granted|{token}|soon|2|!|lock:k{key}")]
            {
                let _: u32 = self.server.run(&format!("PUBLISH {inbox} {push}"));
            }
        }
        let asked = now();
        let taken: Option<String> =
            self.server.run(&format!("SET lock:k{key} 2;of-a-newer-version NX PX {NEWER_LASTS}"));
        if taken.is_some() {
            let (entered, seen) = (now(), asked + NEWER_LASTS * 1_000_000);
            let hold = Hold { key, fence: 0, entered, seen, process: NEWER };
            self.holds.insert((NEWER, asked), hold);
            self.newer += 1;
        }
    }

    fn listens(&mut self) {
        let said: Vec<_> =
            self.processes.iter().map(|one| (one.number, one.worker.process(), one.worker.said())).collect();
        for (number, process, lines) in said {
            self.hears(number, process, lines);
        }
    }

    fn hears(&mut self, number: usize, process: u32, lines: Vec<Line>) {
        for line in lines {
            match (line.word.as_str(), &line.numbers[..]) {
                ("ready", []) => {}
                ("redeemed", []) => *self.redeemed.entry(self.kinds[number].1).or_default() += 1,
                ("entered", &[hold, key, fence, at]) => {
                    let one = Hold { key, fence, entered: at, seen: at, process: number };
                    assert!(self.holds.insert((number, hold), one).is_none());
                }
                ("seen", &[hold, at]) => self.holds.get_mut(&(number, hold)).unwrap().seen = at,
                ("slept", &[due, at]) => {
                    let ago = |time: u64| now().saturating_sub(time) / 1000;
                    self.disturbances.add(process, wall() - ago(due), wall() - ago(at) + AFTERWARDS);
                }
                other => panic!("a worker said {other:?}"),
            }
        }
    }

    /// Lets all calls end, and looks at what is left.
    fn ends(&mut self) {
        for process in &mut self.processes {
            if let Some((since, _)) = process.frozen.take() {
                process.worker.thaw();
                self.disturbances.add(process.worker.process(), since, wall() + AFTERWARDS);
            }
        }
        for process in &mut self.processes {
            process.worker.dismiss();
        }
        for mut process in std::mem::take(&mut self.processes) {
            process.worker.ends();
            self.hears(process.number, process.worker.process(), process.worker.last_words());
        }
        eventually("no lock is left", || self.server.keys().iter().all(|name| name.contains('%')));
    }

    fn has_enough(&self) -> bool {
        let has_renewed = |kind: &Kind| {
            self.holds
                .values()
                .any(|hold| self.is_of(hold.process, *kind) && hold.seen - hold.entered > LONGEST_TTL)
        };
        let mut kinds = [Kind::Ours, Kind::Second].iter();
        let has_redeemed = |kind| self.redeemed.get(kind).is_some_and(|count| *count > 20);
        kinds.all(|kind| self.holds_of(*kind) > 150 && has_renewed(kind) && has_redeemed(kind))
            && self.faults.iter().all(|count| *count > 2)
            && self.newer > 2
    }

    fn is_of(&self, process: usize, kind: Kind) -> bool {
        self.kinds.get(process).is_some_and(|(_, its)| *its == kind)
    }

    fn holds_of(&self, kind: Kind) -> usize {
        self.holds.values().filter(|hold| self.is_of(hold.process, kind)).count()
    }
}

/// Each reports of its hold only what is certain, so an overlap is one.
fn overlaps_and_fences(mut holds: Vec<Hold>) -> Vec<String> {
    holds.sort_by_key(|hold| (hold.key, hold.entered));
    let mut found = Vec::new();
    let (mut longest, mut fenced): (Option<Hold>, Option<Hold>) = (None, None);
    for hold in holds {
        if let Some(before) = longest.filter(|before| before.key == hold.key && hold.entered < before.seen) {
            found.push(format!("both were inside: {before:?}, {hold:?}"));
        }
        if let Some(before) =
            fenced.filter(|before| before.key == hold.key && hold.fence > 0 && hold.fence <= before.fence)
        {
            found.push(format!("fencing tokens: {before:?}, {hold:?}"));
        }
        if longest.is_none_or(|before| before.key != hold.key || before.seen < hold.seen) {
            longest = Some(hold);
        }
        if hold.fence > 0 {
            fenced = Some(hold);
        }
    }
    found
}

/// Our process: as `second/worker.py`.
#[test]
#[ignore = "what a worker process runs"]
fn worker() {
    let Some(job) = Job::of_this_process() else { return };
    let is_ending = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let ending = std::sync::Arc::clone(&is_ending);
    listen(drop, move || ending.store(true, std::sync::atomic::Ordering::Relaxed));
    let locks = LockManager::builder(&job.url).foreign_clients(false).connect_lazy().unwrap();
    let (tasks, next) = (LocalSet::new(), Rc::new(Cell::new(0)));
    let runtime = runtime();
    let server = redis::Client::open(&*job.url).unwrap();
    let tickets = runtime.block_on(server.get_multiplexed_async_connection()).unwrap();
    for caller in 0..=CALLERS {
        let mut random = Random::new(job.numbers[0].wrapping_add(caller << 32));
        let (locks, next, is_ending) = (locks.clone(), Rc::clone(&next), std::sync::Arc::clone(&is_ending));
        let mut tickets = tickets.clone();
        tasks.spawn_local(async move {
            while !is_ending.load(std::sync::atomic::Ordering::Relaxed) {
                if caller < CALLERS {
                    calls(&locks, &mut tickets, &mut random, &next).await;
                } else {
                    redeems(&locks, &mut tickets, &mut random, &next).await;
                }
            }
        });
    }
    runtime.block_on(async {
        tokio::select! {
            () = tasks => {}
            () = tells_when_it_stands_still() => {}
        }
    });
    locks.shutdown_blocking(LIMIT).unwrap();
}

async fn tells_when_it_stands_still() {
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        let due = now() + u64::try_from(PAUSE.as_nanos()).unwrap();
        tokio::time::sleep(PAUSE).await;
        if now() > due + 100_000_000 {
            say("slept", &[due, now()]);
        }
    }
}

async fn calls(
    locks: &LockManager,
    tickets: &mut MultiplexedConnection,
    random: &mut Random,
    next: &Cell<u64>,
) {
    let key = random.between(0, KEYS);
    let ttl = Duration::from_millis([600, 1500][random.index(2)]);
    let wait = Duration::from_millis([0, 20, 5000, 5000, 5000, 5000][random.index(6)]);
    // A long hold is renewed several times.
    let (steps, longest) = if random.percent(1) { (200, 20_000) } else { (random.index(4), 8000) };
    let steps: Vec<_> = (0..steps).map(|_| Duration::from_micros(random.between(0, longest))).collect();
    let hold = next.replace(next.get() + 1);
    if random.percent(70) {
        if let Ok(guard) = locks.lock(format!("k{key}")).ttl(ttl).wait(wait).acquire().await {
            stays(&guard, hold, key, guard.fencing_token(), &steps).await;
            if random.percent(15) {
                if let Ok(ticket) = guard.into_ticket(LASTS).await {
                    let _: Result<u64, _> =
                        tickets.rpush(TICKETS, format!("{key} {}", ticket.expose())).await;
                }
            } else {
                let _ = guard.release().await;
            }
        }
    } else {
        let nested = locks.lock(format!("k{key}")).reentrant(true);
        let body = async {
            if let Ok(guard) = nested.acquire().await {
                stays(&guard, hold, key, guard.fencing_token(), &steps).await;
            }
        };
        let _ = draws_none(locks, key, ttl, wait, body).await;
    }
    tokio::time::sleep(Duration::from_micros(random.between(0, 50_000))).await;
}

/// Redeems what any process has given away.
async fn redeems(
    locks: &LockManager,
    tickets: &mut MultiplexedConnection,
    random: &mut Random,
    next: &Cell<u64>,
) {
    tokio::time::sleep(Duration::from_millis(random.between(20, 100))).await;
    let Ok(Some(ticket)) = tickets.lpop::<_, Option<String>>(TICKETS, None).await else { return };
    let (key, ticket) = ticket.split_once(' ').unwrap();
    if random.percent(30) {
        // Late: another caller may have the lock.
        tokio::time::sleep(LASTS + Duration::from_millis(100)).await;
    }
    let request = locks.redeem(ticket.parse().unwrap()).ttl(Duration::from_millis(1500));
    if let Ok(guard) = request.await {
        say("redeemed", &[]);
        let hold = next.replace(next.get() + 1);
        let steps: Vec<_> =
            (0..random.index(4)).map(|_| Duration::from_micros(random.between(0, 8000))).collect();
        stays(&guard, hold, key.parse().unwrap(), guard.fencing_token(), &steps).await;
        let _ = guard.release().await;
    }
}

#[distributed_lock(key = "k{key}", ttl = ttl, wait = wait, manager = locks)]
async fn draws_none(
    locks: &LockManager,
    key: u64,
    ttl: Duration,
    wait: Duration,
    body: impl Future<Output = ()>,
) -> Result<(), LockError> {
    body.await;
    Ok(())
}

/// The time is read before the lease: who is frozen in between tells too little.
async fn stays(guard: &LockGuard, hold: u64, key: u64, fence: u64, steps: &[Duration]) {
    let at = now();
    if !guard.is_held() {
        return;
    }
    say("entered", &[hold, key, fence, at]);
    for step in steps.iter().copied().chain([Duration::ZERO]) {
        if !step.is_zero() {
            tokio::time::sleep(step).await;
        }
        let at = now();
        if !guard.is_held() {
            return;
        }
        say("seen", &[hold, at]);
    }
}
