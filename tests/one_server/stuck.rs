//! A process that is stopped while its callers wait costs the others one claim, however they ask
//! and however many wait. One that has died costs them nothing.

use std::process::exit;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kit::{Job, LIMIT, RedisCluster, RedisServer, SECOND, Worker, eventually, listen, runtime, say};
use redis::PubSub;
use redlocked::{LockError, LockGuard, LockManager, LockRequest};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tokio::task::JoinSet;

const MS: Duration = Duration::from_millis(1);
const TTL: Duration = Duration::from_secs(30);

/// How much longer than its claim the key of a lock lasts for which others wait.
const GRACE: Duration = Duration::from_millis(100);

/// A claim and its grace, with room for a loaded machine; far less than a claim for each of ten
/// waiters.
const ONE_CLAIM: Duration = Duration::from_secs(5);

/// Its numbers: how many calls wait at first, and the key. `holder`: one more call waits in front
/// of them, and holds the lock until the test sends `end`. Each `more` is another call.
#[test]
#[ignore = "runs in a worker process"]
fn worker() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let (command, mut commands) = unbounded_channel();
    listen(move |line| drop(command.send(line)), || exit(0));
    let locks = connect(&job.url);
    let key = key(job.numbers[1]);
    runtime().block_on(async {
        let (end, ends) = watch::channel(false);
        let mut calls = JoinSet::new();
        if job.task == "holder" {
            let (request, mut ends) = (locks.lock(&key).ttl(2 * SECOND).wait_forever(), ends.clone());
            calls.spawn(request.run_value(async move |_| {
                say("inside", &[]);
                ends.wait_for(|end| *end).await.unwrap();
            }));
            tokio::task::yield_now().await;
        }
        let call = || locks.lock(&key).ttl(TTL).wait_forever().run_value(async |_| ());
        for _ in 0..job.numbers[0] {
            calls.spawn(call());
        }
        while commands.recv().await.unwrap() == "more" {
            calls.spawn(call());
        }
        end.send(true).unwrap();
        while let Some(call) = calls.join_next().await {
            // A holder that was stopped has lost its lock.
            assert!(matches!(call.unwrap(), Ok(()) | Err(LockError::Lost { .. })));
        }
    });
    say("done", &[]);
    // Until it is killed.
    thread::sleep(LIMIT);
}

fn key(number: u64) -> String {
    format!("stuck{number}")
}

fn waiters(server: &RedisServer) -> u64 {
    server.run("ZCARD lock:stuck0%queue")
}

/// A process, so many of whose callers wait for the first lock.
fn crowd(server: &RedisServer, count: u64) -> Worker {
    let before = waiters(server);
    let worker = Worker::start("stuck::worker", "waiters", &server.url(), &[count, 0]);
    eventually("its callers wait", || waiters(server) == before + count);
    worker
}

fn connect(url: &str) -> LockManager {
    LockManager::builder(url).foreign_clients(false).connect_blocking().unwrap()
}

/// Calls, one after the other, until one gets the lock; how long they took, and the longest time
/// from the beginning of one to the answer to the next.
fn served(request: impl Fn() -> LockRequest) -> (LockGuard, Duration, Duration) {
    let start = Instant::now();
    let (mut before, mut longest) = (start, Duration::ZERO);
    loop {
        let began = Instant::now();
        // Also where a loaded machine is slow to answer.
        let answer = request().ttl(TTL).acquire_blocking();
        longest = longest.max(before.elapsed());
        if let Ok(guard) = answer {
            return (guard, start.elapsed(), longest);
        }
        assert!(start.elapsed() < LIMIT, "no caller is served");
        before = began;
        thread::sleep(20 * MS);
    }
}

/// How often a waiter was granted the lock by a push since the last look.
fn grants(server: &RedisServer, pushes: &mut PubSub<'_>) -> usize {
    let _: u32 = server.run("PUBLISH lock:%inbox:end end");
    let next = || pushes.get_message().unwrap().get_payload::<String>().unwrap();
    std::iter::repeat_with(next)
        .take_while(|push| push != "end")
        .filter(|push| push.starts_with("granted|"))
        .count()
}

/// A lock is released to a queue, and then asked for.
struct Stopped {
    server: RedisServer,
    guard: LockGuard,
}

impl Stopped {
    fn new() -> Self {
        let server = RedisServer::start();
        let guard = connect(&server.url()).lock(key(0)).ttl(TTL).acquire_blocking().unwrap();
        Self { server, guard }
    }

    /// When others that wait so long get the lock after its release, and how many claims they have
    /// waited for.
    fn release(
        self,
        wait: Duration,
        request: impl Fn(&LockManager) -> LockRequest,
    ) -> (RedisServer, Duration, usize) {
        let mut monitor = self.server.client();
        let mut pushes = monitor.as_pubsub();
        pushes.psubscribe("lock:%inbox:*").unwrap();
        self.guard.release_blocking().unwrap();
        let others = connect(&self.server.url());
        let (guard, after, longest) = served(|| request(&others).wait(wait));
        let claims = grants(&self.server, &mut pushes);
        drop(pushes);
        // A newcomer that asks later than in the grace of the claim finds no key, and passes the queue.
        let may_pass = wait.is_zero() && longest >= GRACE;
        assert!(may_pass || waiters(&self.server) == 0, "{} wait still", waiters(&self.server));
        guard.release_blocking().unwrap();
        (self.server, after, claims)
    }
}

#[test]
fn a_stopped_process_costs_one_claim_whatever_the_others_wait() {
    for (count, wait) in
        [(10, 0), (100, 0), (100, 500), (100, 900), (100, 1500), (100, 10_000), (1000, 0), (10_000, 200)]
    {
        let what = format!("{count} waiters, the others wait for {wait} ms");
        let stopped = Stopped::new();
        let mut crowd = crowd(&stopped.server, count);
        crowd.freeze();
        let (server, after, claims) = stopped.release(wait * MS, |locks| locks.lock(key(0)));
        assert_eq!(claims, 1, "{what}");
        assert!(after < ONE_CLAIM, "{what}: {after:?}");
        if count <= 100 {
            // The process goes on, and each of its callers gets the lock.
            crowd.thaw();
            crowd.tell("end");
            crowd.says("done");
            eventually("no key is left", || server.keys().is_empty());
        }
    }
}

#[test]
fn two_stopped_processes_whose_waiters_alternate_cost_two_claims() {
    for wait in [Duration::ZERO, LIMIT] {
        let stopped = Stopped::new();
        let mut crowds = [crowd(&stopped.server, 1), crowd(&stopped.server, 1)];
        for _ in 0..10 {
            for crowd in &mut crowds {
                let before = waiters(&stopped.server);
                crowd.tell("more");
                eventually("one more waits", || waiters(&stopped.server) == before + 1);
            }
        }
        crowds.iter().for_each(Worker::freeze);
        let (server, after, claims) = stopped.release(wait, |locks| locks.lock(key(0)));
        // A newcomer that does not wait, and asks late, finds no key behind the first claim.
        let may_pass = wait.is_zero() && claims == 1;
        assert!(claims == 2 || may_pass, "{claims}");
        assert!(after < ONE_CLAIM, "{after:?}");
        for crowd in &mut crowds {
            crowd.thaw();
            crowd.tell("end");
            crowd.says("done");
        }
        eventually("no key is left", || server.keys().is_empty());
    }
}

#[test]
fn a_queue_that_is_full_of_waiters_of_a_stopped_process_is_so_for_one_claim() {
    let stopped = Stopped::new();
    let crowd = crowd(&stopped.server, 20);
    crowd.freeze();
    let others = LockManager::builder(stopped.server.url()).max_waiters(10).connect_blocking().unwrap();
    let (_server, after, claims) = stopped.release(LIMIT, |_| others.lock(key(0)));
    assert_eq!(claims, 1);
    assert!(after < ONE_CLAIM, "{after:?}");
}

/// The holder got the lock in the queue, in front of its own waiters, and has renewed it since.
#[test]
fn the_waiters_of_a_stopped_holder_leave_with_its_lease() {
    let stopped = Stopped::new();
    let holder = Worker::start("stuck::worker", "holder", &stopped.server.url(), &[20, 0]);
    eventually("its callers wait", || waiters(&stopped.server) == 21);
    let Stopped { server, guard } = stopped;
    guard.release_blocking().unwrap();
    holder.says("inside");
    eventually("it has renewed", || server.run::<u64>("PTTL lock:stuck0") > 1500);
    holder.freeze();
    let mut monitor = server.client();
    let mut pushes = monitor.as_pubsub();
    pushes.psubscribe("lock:%inbox:*").unwrap();
    let others = connect(&server.url());
    let (guard, after, _) = served(|| others.lock(key(0)));
    assert_eq!(grants(&server, &mut pushes), 0, "none of its waiters had a claim");
    assert!(after < ONE_CLAIM + SECOND, "{after:?}");
    drop(guard);
}

#[test]
fn in_a_cluster_a_stopped_process_costs_one_claim() {
    let cluster = RedisCluster::of_this_process();
    let others = connect(&cluster.url());
    for number in [1, 2, 3] {
        let name = format!("lock:{}", key(number));
        let owner = cluster.owner_of(&name);
        let guard = others.lock(key(number)).ttl(TTL).acquire_blocking().unwrap();
        let crowd = Worker::start("stuck::worker", "waiters", &cluster.url(), &[20, number]);
        eventually("its callers wait", || {
            others.inspect_blocking(&key(number)).unwrap().is_some_and(|lock| lock.waiters() == 20)
        });
        crowd.freeze();
        guard.release_blocking().unwrap();
        let (guard, after, _) = served(|| others.lock(key(number)));
        assert!(after < ONE_CLAIM, "{after:?}");
        guard.release_blocking().unwrap();
        let left = || owner.run::<Vec<String>>(&format!("KEYS lock:*{}*", key(number)));
        eventually("no key is left", || left().is_empty());
    }
}

/// Its caller waits for the lock alone, in front of readers that would have room.
#[test]
fn a_stopped_process_whose_writer_waits_keeps_no_reader_out() {
    let server = RedisServer::start();
    let readers = connect(&server.url());
    let request = || readers.lock(key(0)).shared().ttl(TTL).wait(LIMIT);
    let stays = request().acquire_blocking().unwrap();
    let mut writer = crowd(&server, 1);
    writer.freeze();
    let start = Instant::now();
    let second = request().acquire_blocking().unwrap();
    assert!(start.elapsed() < ONE_CLAIM, "{:?}", start.elapsed());
    // It has lost its place, and asks for a new one when it goes on.
    let start = Instant::now();
    let third = request().acquire_blocking().unwrap();
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    writer.thaw();
    eventually("it waits again", || waiters(&server) == 1);
    for guard in [stays, second, third] {
        guard.release_blocking().unwrap();
    }
    writer.tell("end");
    writer.says("done");
    eventually("no key is left", || server.keys().is_empty());
}

/// Its lock expires without a release.
#[test]
fn a_process_whose_min_hold_ends_is_not_taken_for_stopped() {
    let server = RedisServer::start();
    let (first, second) = (connect(&server.url()), connect(&server.url()));
    let order = Arc::new(Mutex::new(Vec::new()));
    let guard = first.lock(key(0)).ttl(TTL).acquire_blocking().unwrap();
    let calls: Vec<_> = [&first, &second, &first, &second]
        .into_iter()
        .enumerate()
        .map(|(number, locks)| {
            let min_hold = if number == 0 { 300 * MS } else { Duration::ZERO };
            let request = locks.lock(key(0)).ttl(TTL).min_hold(min_hold).wait(LIMIT);
            let order = Arc::clone(&order);
            let call =
                thread::spawn(move || request.run_value_blocking(|_| order.lock().unwrap().push(number)));
            eventually("it waits", || waiters(&server) == u64::try_from(number).unwrap() + 1);
            call
        })
        .collect();
    drop(guard);
    for call in calls {
        call.join().unwrap().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    eventually("no key is left", || server.keys().is_empty());
}

/// All in front of the live waiter have died, and the key is deleted: by a client of another kind
/// that releases, or by an operator. How long the live waiter waits beside the free lock.
fn beside_dead_waiters(foreign: bool, url: impl Fn(&RedisServer) -> String) -> Duration {
    let server = RedisServer::start();
    let holder = connect(&url(&server));
    let guard = if foreign {
        let _: String = server.run("SET lock:stuck0 foreign PX 60000");
        None
    } else {
        Some(holder.lock(key(0)).ttl(TTL).acquire_blocking().unwrap())
    };
    let mut dead = crowd(&server, 50);
    let live = connect(&url(&server));
    let call =
        thread::spawn(move || live.lock(key(0)).wait(3 * LIMIT).run_value_blocking(|_| Instant::now()));
    eventually("it waits", || waiters(&server) == 51);
    let in_watch = || foreign || guard.as_ref().unwrap().remaining() + 400 * MS < TTL;
    eventually("a holder watches its lock", in_watch);
    dead.kill();
    let start = Instant::now();
    let _: u32 = server.run("DEL lock:stuck0");
    let after = call.join().unwrap().unwrap() - start;
    eventually("no key is left", || server.keys().is_empty());
    after
}

#[test]
fn dead_waiters_in_front_cost_a_live_one_little_when_the_lock_is_deleted() {
    // Its first interval, and room for a slow machine.
    let most = 4 * SECOND;
    for foreign in [true, false] {
        let after = beside_dead_waiters(foreign, RedisServer::url);
        assert!(after < most, "foreign: {foreign}, {after:?}");
    }
    // Without pushes of changes.
    let after = beside_dead_waiters(true, |server| {
        let _: String = server.run("ACL SETUSER shop on >pass ~* &* +@all -client");
        format!("redis://shop:pass@127.0.0.1:{}/", server.port())
    });
    assert!(after < most, "{after:?}");
}
