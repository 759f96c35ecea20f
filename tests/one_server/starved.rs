//! Commands to an engine whose runtime does not run it: each kind of command, from each kind of
//! caller.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use kit::{LIMIT, Proxy, RedisServer, eventually, runtime, within};
use redlocked::{LockGuard, LockManager};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

const TTL: Duration = Duration::from_secs(60);

/// The engine moves after some 100 ms. The rest is for a busy machine, and far from what a starved
/// caller waited for before: a fifth of the ttl, or the end of the computation.
const SOON: Duration = Duration::from_secs(3);

/// After so long without a command, the stall watchdog has no look to make.
const QUIET: Duration = Duration::from_millis(700);

fn workers(count: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(count).enable_all().build().unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Acquire,
    Inspect,
    Extend,
    Release,
    Drop,
}

const COMMANDS: [Command; 5] =
    [Command::Acquire, Command::Inspect, Command::Extend, Command::Release, Command::Drop];

/// A manager with a command that is not sent yet.
struct Call {
    key: String,
    command: Command,
    locks: LockManager,
    guard: Option<LockGuard>,
}

impl Call {
    async fn new(url: String, key: String, command: Command) -> Self {
        let locks = LockManager::connect(&url).await.unwrap();
        let guard = match command {
            Command::Extend | Command::Release | Command::Drop => {
                Some(locks.lock(&*key).ttl(TTL).acquire().await.unwrap())
            }
            Command::Acquire | Command::Inspect => None,
        };
        Self { key, command, locks, guard }
    }

    async fn sent(mut self) -> Self {
        match self.command {
            Command::Acquire => {
                let guard = self.locks.lock(&*self.key).ttl(TTL).wait(LIMIT).acquire().await;
                self.guard = Some(guard.unwrap());
            }
            Command::Inspect => assert_eq!(self.locks.inspect(&self.key).await, Ok(None)),
            Command::Extend => self.guard.as_ref().unwrap().extend(2 * TTL).await.unwrap(),
            Command::Release => drop(self.guard.take().unwrap().release().await.unwrap()),
            Command::Drop => drop(self.guard.take()),
        }
        self
    }

    fn sent_blocking(mut self) -> Self {
        match self.command {
            Command::Acquire => {
                let guard = self.locks.lock(&*self.key).ttl(TTL).wait(LIMIT).acquire_blocking();
                self.guard = Some(guard.unwrap());
            }
            Command::Inspect => assert_eq!(self.locks.inspect_blocking(&self.key), Ok(None)),
            Command::Extend => self.guard.as_ref().unwrap().extend_blocking(2 * TTL).unwrap(),
            Command::Release => drop(self.guard.take().unwrap().release_blocking().unwrap()),
            Command::Drop => drop(self.guard.take()),
        }
        self
    }
}

/// True when the server has executed the command.
fn is_executed(server: &RedisServer, key: &str, command: Command) -> bool {
    let left: i64 = server.run(&format!("PTTL lock:{key}"));
    match command {
        Command::Acquire => left > 0,
        Command::Inspect => true,
        Command::Extend => left > i64::try_from(TTL.as_millis()).unwrap(),
        Command::Release | Command::Drop => left < 0,
    }
}

/// While it lives, so many threads of a runtime compute.
struct Busy {
    is_over: Arc<AtomicBool>,
}

impl Busy {
    fn start(runtime: &Runtime, threads: usize) -> Self {
        let (is_over, computing) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        for _ in 0..threads {
            let (is_over, computing) = (Arc::clone(&is_over), Arc::clone(&computing));
            runtime.spawn(async move {
                computing.fetch_add(1, Ordering::SeqCst);
                within(2 * LIMIT, "the end of the test", || is_over.load(Ordering::SeqCst));
            });
        }
        eventually("all threads compute", || computing.load(Ordering::SeqCst) == threads);
        Self { is_over }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

/// Runs a call as this kind of caller, and returns when it is answered.
type Caller = fn(&Runtime, Call) -> Call;

fn in_spawn_blocking(runtime: &Runtime, call: Call) -> Call {
    let (tell, told) = mpsc::channel();
    runtime.spawn_blocking(move || tell.send(call.sent_blocking()));
    told.recv().unwrap()
}

fn in_block_on(runtime: &Runtime, call: Call) -> Call {
    runtime.block_on(call.sent())
}

fn in_another_runtime(_: &Runtime, call: Call) -> Call {
    runtime().block_on(call.sent())
}

fn without_a_runtime(_: &Runtime, call: Call) -> Call {
    call.sent_blocking()
}

const CALLERS: [(&str, Caller); 4] = [
    ("spawn_blocking", in_spawn_blocking),
    ("block_on", in_block_on),
    ("another_runtime", in_another_runtime),
    ("no_runtime", without_a_runtime),
];

/// All threads of the runtime, which has so many, compute while callers on other threads send
/// commands.
#[track_caller]
fn each_caller_is_served(runtime: Runtime, threads: usize) {
    let server = RedisServer::start();
    let (runtime, is_over) = (Arc::new(runtime), Arc::new(Notify::new()));
    // The thread that runs the tasks of a runtime without workers.
    let first = thread::spawn({
        let (runtime, is_over) = (Arc::clone(&runtime), Arc::clone(&is_over));
        move || runtime.block_on(is_over.notified())
    });
    let mut calls = Vec::new();
    for (name, caller) in CALLERS {
        for command in COMMANDS {
            let (tell, told) = mpsc::channel();
            let call = Call::new(server.url(), format!("{name}-{command:?}"), command);
            runtime.spawn(async move { tell.send(call.await) });
            calls.push((caller, told.recv().unwrap()));
        }
    }
    thread::sleep(QUIET);
    let busy = Busy::start(&runtime, threads);
    thread::scope(|scope| {
        for (caller, call) in calls {
            let (runtime, server) = (&runtime, &server);
            scope.spawn(move || {
                let (start, key, command) = (Instant::now(), call.key.clone(), call.command);
                let call = caller(runtime, call);
                within(SOON, &key, || is_executed(server, &key, command));
                assert!(start.elapsed() < SOON, "{key}: {:?}", start.elapsed());
                drop(call);
            });
        }
    });
    drop(busy);
    is_over.notify_one();
    first.join().unwrap();
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_caller_beside_a_thread_that_computes_is_served() {
    each_caller_is_served(runtime(), 1);
}

#[test]
fn a_caller_beside_workers_that_compute_is_served() {
    for count in [1, 2] {
        each_caller_is_served(workers(count), count);
    }
}

/// A task sends the command, and computes until the server has executed it, without an `.await`.
async fn computes_behind(command: Command, server: Arc<RedisServer>) {
    let key = format!("{command:?}");
    let call = Call::new(server.url(), key.clone(), command).await;
    tokio::time::sleep(QUIET).await;
    let mut sent = Box::pin(call.sent());
    let polled = poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await;
    within(SOON, &key, || is_executed(&server, &key, command));
    if polled.is_pending() {
        drop(sent.await);
    }
}

fn a_task_that_computes_is_served(runtime: &Runtime) {
    let server = Arc::new(RedisServer::start());
    for command in COMMANDS {
        runtime.block_on(runtime.spawn(computes_behind(command, Arc::clone(&server)))).unwrap();
    }
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_task_that_computes_behind_its_command_is_served() {
    a_task_that_computes_is_served(&runtime());
}

#[test]
fn a_task_that_computes_on_a_worker_behind_its_command_is_served() {
    for count in [1, 2, 4] {
        a_task_that_computes_is_served(&workers(count));
    }
}

#[test]
fn an_answer_that_arrives_while_the_runtime_computes_is_read() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let runtime = workers(1);
    let locks = LockManager::builder(proxy.url()).io_timeout(2 * LIMIT);
    let locks = runtime.block_on(runtime.spawn(locks.connect())).unwrap().unwrap();
    proxy.hold_replies(true);
    let caller = thread::spawn(move || {
        let guard = locks.lock("k").acquire_blocking();
        (guard.unwrap(), Instant::now())
    });
    eventually("the server has executed the request", || server.keys().len() == 1);
    let busy = Busy::start(&runtime, 1);
    let start = Instant::now();
    proxy.hold_replies(false);
    let (guard, answered) = caller.join().unwrap();
    assert!(answered.duration_since(start) < SOON, "{:?}", answered.duration_since(start));
    drop(busy);
    assert!(guard.is_held());
}
