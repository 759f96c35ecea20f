//! The managers of a fleet, in a process of their own: each has a thread, a runtime of one thread
//! and its connections, as a process of a fleet has.
//!
//! The comparison tells them what to do line by line, in JSON, and they answer each line with one.
//!
//! | it says | they answer |
//! | --- | --- |
//! | the order, in a variable: `name`, `url`, `managers` | `{"bytes"}` of memory each, when all are connected |
//! | `{"do": "work", "hot", "ms", "pause_us"}` | `{"locks", "failed", "worst_ms", "seconds"}` |
//! | `{"do": "begin", "pause_us"}` | `{}`: they work until `end` |
//! | `{"do": "end"}` | as for `work` |
//! | `{"do": "gone"}` | `{}`: the server was killed; from now on, who works again is noted |
//! | `{"do": "back", "limit_ms"}` | `{"managers", "median_ms", "last_ms"}`: who works again, and after how long |
//! | `{"do": "replace", "nth", "of"}` | `{}`: one part of them was shut down, and started again |
//! | `{"do": "hold", "count", "ttl_ms"}` | `{"bytes"}` of memory for each lock: each holds so many |
//! | `{"do": "watch", "ms"}` | `{"share", "lost"}`: CPU, of a core, and the locks that are no longer held |

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kit::contender::{Annotated, empty};
use kit::figures::{own_cpu, percentile, status};
use kit::load::runtime;
use redlocked::{LockGuard, LockManager};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::contender::Client;
use crate::{allow_many_files, peers};

/// This program asks itself to be a fleet with this variable.
pub const ORDER: &str = "REDLOCKED_BENCHMARKS_FLEET";

/// The contender whose managers are ours.
pub const OURS: &str = "redlocked";

/// For how long a call waits for its lock. A server that is away is part of it.
const WAIT: Duration = Duration::from_secs(5);

/// A call that takes longer has failed, whatever its library thinks.
const PATIENCE: Duration = Duration::from_secs(8);

/// From a failed call to the next one.
const AFTER_A_FAILURE: Duration = Duration::from_millis(10);

const HOT: &str = "fleet:hot";

/// How many locks a manager takes at a time, before it holds them.
const AT_ONCE: usize = 64;

/// True when this process was started to be a fleet; it has been one then.
pub fn was_ordered() -> bool {
    let Ok(order) = std::env::var(ORDER) else { return false };
    allow_many_files();
    let order: Value = serde_json::from_str(&order).unwrap();
    let count = number(&order, "managers");
    let mut fleet = Fleet {
        name: order["name"].as_str().unwrap().to_owned(),
        url: order["url"].as_str().unwrap().to_owned(),
        managers: Vec::new(),
        common: Arc::default(),
        begun: None,
    };
    let before = status("VmRSS").unwrap_or_default();
    fleet.start(0..count);
    let kib = status("VmRSS").unwrap_or_default().saturating_sub(before);
    say(&json!({ "bytes": kib * 1024 / count }));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let order: Value = serde_json::from_str(&line).unwrap();
        say(&fleet.obey(&order));
    }
    true
}

fn number(order: &Value, name: &str) -> u64 {
    order[name].as_u64().unwrap_or_else(|| panic!("{name} in {order}"))
}

fn millis(order: &Value, name: &str) -> Duration {
    Duration::from_millis(number(order, name))
}

fn say(answer: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{answer}").unwrap();
    out.flush().unwrap();
}

struct Fleet {
    name: String,
    url: String,
    managers: Vec<Manager>,
    common: Arc<Common>,
    /// Since when they work, without an end.
    begun: Option<(Instant, Work)>,
}

/// What all managers see.
#[derive(Default)]
struct Common {
    ends: AtomicBool,
    server_is_gone: AtomicBool,
    /// When a manager worked again.
    back: Mutex<Vec<Instant>>,
    /// The calls of managers that were replaced.
    earlier: Mutex<Done>,
    lost: AtomicU64,
}

impl Fleet {
    fn start(&mut self, numbers: std::ops::Range<u64>) {
        let started: Vec<Manager> =
            numbers.map(|number| Manager::start(&self.name, &self.url, number, &self.common)).collect();
        for manager in &started {
            manager.is_ready();
        }
        self.managers.extend(started);
    }

    fn obey(&mut self, order: &Value) -> Value {
        match order["do"].as_str().unwrap() {
            "work" => {
                self.begin(Work { hot: order["hot"] == true, pause: micros(order) });
                thread::sleep(millis(order, "ms"));
                self.end()
            }
            "begin" => {
                self.begin(Work { hot: false, pause: micros(order) });
                json!({})
            }
            "end" => self.end(),
            "gone" => {
                self.common.back.lock().unwrap().clear();
                self.common.server_is_gone.store(true, Ordering::SeqCst);
                json!({})
            }
            "back" => self.back(millis(order, "limit_ms")),
            "replace" => {
                let part = self.managers.len() / usize::try_from(number(order, "of")).unwrap();
                let first = part * usize::try_from(number(order, "nth")).unwrap();
                self.replace(first..first + part);
                json!({})
            }
            "hold" => self.hold(number(order, "count"), millis(order, "ttl_ms")),
            "watch" => {
                let (used, start) = (own_cpu(), Instant::now());
                thread::sleep(millis(order, "ms"));
                let share = own_cpu().saturating_sub(used).as_secs_f64() / start.elapsed().as_secs_f64();
                self.common.lost.store(0, Ordering::SeqCst);
                for done in self.tell(&Job::Count) {
                    done.recv().unwrap();
                }
                json!({ "share": share, "lost": self.common.lost.load(Ordering::SeqCst) })
            }
            other => panic!("{other} is not known"),
        }
    }

    fn tell(&self, job: &Job) -> Vec<mpsc::Receiver<Done>> {
        self.managers.iter().map(|manager| manager.tell(job.clone())).collect()
    }

    fn begin(&mut self, work: Work) {
        self.common.ends.store(false, Ordering::SeqCst);
        *self.common.earlier.lock().unwrap() = Done::default();
        for manager in &mut self.managers {
            manager.works(work);
        }
        self.begun = Some((Instant::now(), work));
    }

    fn end(&mut self) -> Value {
        self.common.ends.store(true, Ordering::SeqCst);
        self.common.server_is_gone.store(false, Ordering::SeqCst);
        let (start, _) = self.begun.take().unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let mut all = std::mem::take(&mut *self.common.earlier.lock().unwrap());
        for manager in &mut self.managers {
            all.add(manager.has_done());
        }
        json!({ "locks": all.locks, "failed": all.failed, "worst_ms": all.worst_ms, "seconds": seconds })
    }

    /// Waits until all work again, or the limit is over.
    fn back(&self, limit: Duration) -> Value {
        let start = Instant::now();
        let count = || self.common.back.lock().unwrap().len();
        while count() < self.managers.len() && start.elapsed() < limit {
            thread::sleep(Duration::from_millis(1));
        }
        let after = |at: &Instant| at.saturating_duration_since(start).as_secs_f64() * 1e3;
        let times: Vec<f64> = self.common.back.lock().unwrap().iter().map(after).collect();
        json!({
            "managers": times.len(), "median_ms": percentile(&times, 50), "last_ms": percentile(&times, 100),
        })
    }

    /// Shuts these down, one process after the other, and starts others in their places.
    fn replace(&mut self, places: std::ops::Range<usize>) {
        let begun = self.begun.as_ref().map(|(_, work)| *work);
        let old: Vec<Manager> = self.managers.drain(places.clone()).collect();
        let stopped: Vec<_> = old.into_iter().map(Manager::stop).collect();
        for stopped in stopped {
            let done = stopped.join().unwrap();
            self.common.earlier.lock().unwrap().add(done);
        }
        self.start(places.start as u64..places.end as u64);
        if let Some(work) = begun {
            let new = self.managers.len() - places.len();
            for manager in &mut self.managers[new..] {
                manager.works(work);
            }
        }
    }

    fn hold(&self, count: u64, ttl: Duration) -> Value {
        let before = status("VmRSS").unwrap_or_default();
        for done in self.tell(&Job::Hold { count, ttl }) {
            done.recv().unwrap();
        }
        let kib = status("VmRSS").unwrap_or_default().saturating_sub(before);
        json!({ "bytes": kib * 1024 / (count * self.managers.len() as u64) })
    }
}

fn micros(order: &Value) -> Duration {
    Duration::from_micros(number(order, "pause_us"))
}

#[derive(Clone, Copy)]
struct Work {
    /// All want the same key; else each has its own.
    hot: bool,
    /// After each lock.
    pause: Duration,
}

#[derive(Clone)]
enum Job {
    Work(Work),
    Hold { count: u64, ttl: Duration },
    Count,
}

#[derive(Clone, Copy, Default)]
struct Done {
    locks: u64,
    failed: u64,
    /// The longest call that got its lock.
    worst_ms: f64,
}

impl Done {
    fn add(&mut self, other: Self) {
        self.locks += other.locks;
        self.failed += other.failed;
        self.worst_ms = self.worst_ms.max(other.worst_ms);
    }
}

type Jobs = UnboundedSender<(Job, mpsc::Sender<Done>)>;

/// One process of the fleet, as this one simulates it.
struct Manager {
    jobs: Jobs,
    /// It ends what it does, and then itself.
    stops: Arc<AtomicBool>,
    ready: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
    working: Option<mpsc::Receiver<Done>>,
}

impl Manager {
    fn start(name: &str, url: &str, number: u64, common: &Arc<Common>) -> Self {
        let (jobs, todo) = unbounded_channel();
        let (is_ready, ready) = mpsc::channel();
        let stops = Arc::new(AtomicBool::new(false));
        let worker =
            Worker { key: format!("fleet:{number}"), common: Arc::clone(common), stops: Arc::clone(&stops) };
        let (name, url) = (name.to_owned(), url.to_owned());
        let thread = thread::Builder::new().stack_size(1024 * 1024);
        let thread =
            thread.spawn(move || runtime(1).block_on(worker.run(&name, &url, todo, is_ready))).unwrap();
        Self { jobs, stops, ready, thread, working: None }
    }

    fn is_ready(&self) {
        self.ready.recv().unwrap();
    }

    fn tell(&self, job: Job) -> mpsc::Receiver<Done> {
        let (tell, done) = mpsc::channel();
        self.jobs.send((job, tell)).unwrap();
        done
    }

    fn works(&mut self, work: Work) {
        self.working = Some(self.tell(Job::Work(work)));
    }

    fn has_done(&mut self) -> Done {
        self.working.take().map(|done| done.recv().unwrap()).unwrap_or_default()
    }

    /// The thread ends with what it had done.
    fn stop(mut self) -> JoinHandle<Done> {
        self.stops.store(true, Ordering::SeqCst);
        thread::spawn(move || {
            let done = self.has_done();
            drop(self.jobs);
            self.thread.join().unwrap();
            done
        })
    }
}

struct Worker {
    key: String,
    common: Arc<Common>,
    stops: Arc<AtomicBool>,
}

impl Worker {
    async fn run(
        self,
        name: &str,
        url: &str,
        mut todo: UnboundedReceiver<(Job, mpsc::Sender<Done>)>,
        ready: mpsc::Sender<()>,
    ) {
        let mut ours = None;
        let client: Arc<dyn Client> = if name == OURS {
            let locks = LockManager::connect(url).await.unwrap();
            ours = Some(locks.clone());
            Arc::new(Annotated(locks))
        } else {
            peers::one(name, url).await
        };
        let warm_up = client.locked(format!("warm-up:{}", self.key), WAIT, empty()).await;
        warm_up.unwrap();
        ready.send(()).unwrap();
        let mut held: Vec<LockGuard> = Vec::new();
        while let Some((job, tell)) = todo.recv().await {
            let mut done = Done::default();
            match job {
                Job::Work(work) => done = self.work(&*client, work).await,
                Job::Hold { count, ttl } => held.extend(self.hold(ours.as_ref().unwrap(), count, ttl).await),
                Job::Count => {
                    let lost = held.iter().filter(|guard| !guard.is_held()).count();
                    self.common.lost.fetch_add(lost as u64, Ordering::SeqCst);
                }
            }
            tell.send(done).unwrap();
        }
        // A million releases would only be waited for.
        std::mem::forget(held);
        if let Some(locks) = ours {
            let _ = locks.shutdown(Duration::from_secs(1)).await;
        }
    }

    async fn work(&self, client: &dyn Client, work: Work) -> Done {
        let mut done = Done::default();
        let mut is_back = false;
        let key = if work.hot { HOT } else { &self.key };
        let ends = || self.common.ends.load(Ordering::Relaxed) || self.stops.load(Ordering::Relaxed);
        while !ends() {
            let asked = Instant::now();
            let call = client.locked(key.to_owned(), WAIT, empty());
            if matches!(tokio::time::timeout(PATIENCE, call).await, Ok(Ok(()))) {
                done.locks += 1;
                done.worst_ms = done.worst_ms.max(asked.elapsed().as_secs_f64() * 1e3);
                // Also a call from before, which waited.
                if !is_back && self.common.server_is_gone.load(Ordering::SeqCst) {
                    is_back = true;
                    self.common.back.lock().unwrap().push(Instant::now());
                }
            } else {
                done.failed += 1;
                tokio::time::sleep(AFTER_A_FAILURE).await;
            }
            if !work.pause.is_zero() {
                tokio::time::sleep(work.pause).await;
            }
        }
        done
    }

    async fn hold(&self, locks: &LockManager, count: u64, ttl: Duration) -> Vec<LockGuard> {
        let numbers: Vec<u64> = (0..count).collect();
        let mut held = Vec::with_capacity(numbers.len());
        for some in numbers.chunks(AT_ONCE) {
            let take = |number: &u64| {
                let acquire = locks.lock(format!("{}:{number:06}", self.key)).ttl(ttl).wait(ttl).acquire();
                tokio::spawn(acquire)
            };
            for taken in some.iter().map(take).collect::<Vec<_>>() {
                held.push(taken.await.unwrap().unwrap());
            }
        }
        held
    }
}
