//! Many managers in one program, as one that has a manager for each tenant: locks per second with a
//! key for each of them, and hand-offs per second of one key that all want.
//!
//! ```text
//! cargo bench --bench many_managers
//! ```
//!
//! Each manager has one task. Their loops run on the runtime of the tasks, or on the thread that
//! managers with `own_thread` share, or each has a runtime and a thread, as each process of a fleet
//! has. Read the ratios to ten managers of the same kind: a round goes through all kinds and sizes.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use kit::RedisServer;
use kit::contender::{Annotated, Client, empty};
use kit::figures::{is_measuring, median, over, rounds, table};
use kit::load::{Keys, runtime};
use redlocked::{LockManager, LockManagerBuilder};

/// The first one is what the others are compared with.
const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];

/// So many runtimes have all the files that a process may open.
const MOST_RUNTIMES: usize = 1_000;

/// Nobody waits longer for a lock.
const WAIT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    OneRuntime,
    OwnThread,
    ThreadEach,
}

const KINDS: [(Kind, &str); 3] = [
    (Kind::OneRuntime, "on one runtime"),
    (Kind::OwnThread, "`own_thread`"),
    (Kind::ThreadEach, "a runtime and a thread each"),
];

/// The figures of one round.
struct Figures {
    own_keys: f64,
    one_key: f64,
}

fn main() {
    kit::no_bench_arguments();
    let server = RedisServer::start_with(&["--maxclients".to_owned(), "20000".to_owned()]);
    let sizes = if is_measuring() { &SIZES[..] } else { &SIZES[..1] };
    let mut rows = Vec::new();
    let mut all: Vec<Vec<Vec<Figures>>> = KINDS.map(|_| sizes.iter().map(|_| Vec::new()).collect()).into();
    for _ in 0..rounds(2, 1) {
        for (nth, size) in sizes.iter().enumerate() {
            for (kind, figures) in KINDS.iter().zip(&mut all) {
                if kind.0 == Kind::ThreadEach && *size > MOST_RUNTIMES {
                    continue;
                }
                figures[nth].push(one_round(kind.0, *size, &server.url()));
            }
        }
    }
    for ((_, name), figures) in KINDS.iter().zip(&all) {
        for (size, of_size) in sizes.iter().zip(figures).filter(|(_, of_size)| !of_size.is_empty()) {
            let column =
                |of: &[Figures], figure: fn(&Figures) -> f64| of.iter().map(figure).collect::<Vec<_>>();
            let mut row = vec![format!("{size} managers, {name}")];
            for figure in [(|one| one.own_keys) as fn(&Figures) -> f64, |one| one.one_key] {
                let here = column(of_size, figure);
                row.push(format!("{:.0}", median(&here)));
                row.push(format!("{:.2}", over(&here, &column(&figures[0], figure))));
            }
            rows.push(row);
        }
    }
    let title = "Locks per second of managers with a key each, and hand-offs per second of one key; ratios to ten of the \
                 same kind are medians over rounds";
    table(title, &["", "locks/s", "/ 10", "hand-offs/s", "/ 10"], &rows);
}

fn one_round(kind: Kind, size: usize, url: &str) -> Figures {
    let lasts = Duration::from_millis(if is_measuring() { 600 } else { 20 });
    // Thousands connect at once.
    let builder = LockManager::builder(url).io_timeout(Duration::from_secs(20));
    match kind {
        Kind::OneRuntime => on_one_runtime(&builder, size, lasts),
        Kind::OwnThread => on_one_runtime(&builder.own_thread(true), size, lasts),
        Kind::ThreadEach => on_threads(&builder, size, lasts),
    }
}

fn on_one_runtime(builder: &LockManagerBuilder, size: usize, lasts: Duration) -> Figures {
    let runtime = runtime(1);
    let clients = runtime.block_on(connect(builder, size));
    let [own_keys, one_key] = [Keys::Own, Keys::One].map(|keys| {
        let start = Instant::now();
        let locks = runtime.block_on(async {
            let begin = |(number, client): (usize, &Arc<dyn Client>)| {
                tokio::spawn(work(Arc::clone(client), keys.of(number), start + lasts))
            };
            let tasks: Vec<_> = clients.iter().enumerate().map(begin).collect();
            let mut locks = 0;
            for task in tasks {
                locks += task.await.unwrap();
            }
            locks
        });
        f64::from(locks) / start.elapsed().as_secs_f64()
    });
    Figures { own_keys, one_key }
}

async fn connect(builder: &LockManagerBuilder, size: usize) -> Vec<Arc<dyn Client>> {
    let mut clients: Vec<Arc<dyn Client>> = Vec::new();
    for _ in 0..size {
        clients.push(Arc::new(Annotated(builder.clone().connect().await.unwrap())));
    }
    clients
}

async fn work(client: Arc<dyn Client>, key: String, until: Instant) -> u32 {
    let mut locks = 0;
    while Instant::now() < until {
        client.locked(key.clone(), WAIT, empty()).await.unwrap();
        locks += 1;
    }
    locks
}

fn on_threads(builder: &LockManagerBuilder, size: usize, lasts: Duration) -> Figures {
    let step = Arc::new(Barrier::new(size + 1));
    let threads: Vec<_> = (0..size)
        .map(|number| {
            let (builder, step) = (builder.clone(), Arc::clone(&step));
            thread::spawn(move || {
                let runtime = runtime(1);
                let client = runtime.block_on(connect(&builder, 1)).pop().unwrap();
                [Keys::Own, Keys::One].map(|keys| {
                    step.wait();
                    let done =
                        runtime.block_on(work(Arc::clone(&client), keys.of(number), Instant::now() + lasts));
                    step.wait();
                    done
                })
            })
        })
        .collect();
    let seconds = [(); 2].map(|()| {
        step.wait();
        let start = Instant::now();
        step.wait();
        start.elapsed().as_secs_f64()
    });
    let done = threads.into_iter().map(|thread| thread.join().unwrap());
    let sums = done.fold([0.0; 2], |sums, done| [0, 1].map(|nth| sums[nth] + f64::from(done[nth])));
    Figures { own_keys: sums[0] / seconds[0], one_key: sums[1] / seconds[1] }
}
