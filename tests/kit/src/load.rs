//! Locks of many tasks that no task waits for, as fast as they can: each has a key of its own, or all
//! may hold the one at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::contender::{Client, empty};
use crate::figures::{own_cpu, server_cpu};

/// The figures of one round.
#[derive(Clone, Copy)]
pub struct Load {
    /// Locks per second.
    pub rate: f64,
    /// Microseconds of CPU of this process, for each lock.
    pub own_cpu: f64,
    /// Microseconds of CPU of the server, for each lock.
    pub server_cpu: f64,
}

/// The keys of the tasks.
#[derive(Clone, Copy)]
pub enum Keys {
    /// `load:0`, `load:1` and so on: each task has its own.
    Own,
    /// `load`.
    One,
}

impl Keys {
    /// The key of this task.
    pub fn of(self, task: usize) -> String {
        match self {
            Self::Own => format!("load:{task}"),
            Self::One => "load".to_owned(),
        }
    }
}

impl Load {
    /// Runs so many tasks for about that long, on the workers of the runtime. `None`: not one lock
    /// was taken.
    pub fn of(
        client: &Arc<dyn Client>,
        tasks: usize,
        lasts: Duration,
        runtime: &Runtime,
        stats: &mut redis::Connection,
    ) -> Option<Self> {
        Self::of_fleet(std::slice::from_ref(client), tasks, Keys::Own, lasts, runtime, stats)
    }

    /// [`of`](Self::of) for tasks that are spread over several clients.
    pub fn of_fleet(
        clients: &[Arc<dyn Client>],
        tasks: usize,
        keys: Keys,
        lasts: Duration,
        runtime: &Runtime,
        stats: &mut redis::Connection,
    ) -> Option<Self> {
        let served = server_cpu(stats);
        let (used, start) = (own_cpu(), Instant::now());
        let locks = f64::from(runtime.block_on(locks(clients, tasks, keys, lasts)));
        let (elapsed, own_cpu) = (start.elapsed(), own_cpu().saturating_sub(used));
        let server_cpu = server_cpu(stats).saturating_sub(served);
        let each = |total: Duration| total.as_secs_f64() * 1e6 / locks;
        (locks > 0.0).then(|| Self {
            rate: locks / elapsed.as_secs_f64(),
            own_cpu: each(own_cpu),
            server_cpu: each(server_cpu),
        })
    }
}

async fn locks(clients: &[Arc<dyn Client>], tasks: usize, keys: Keys, lasts: Duration) -> u32 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|number| {
            let client = Arc::clone(&clients[number % clients.len()]);
            tokio::spawn(async move {
                let mut done = 0;
                while start.elapsed() < lasts {
                    client.locked(keys.of(number), Duration::from_secs(30), empty()).await.unwrap();
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    done
}

/// A runtime of one thread, or of several workers.
pub fn runtime(workers: usize) -> Runtime {
    let builder = match workers {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build(),
    };
    builder.unwrap()
}

/// So many locks by one task of the runtime, one after the other, in microseconds. One more comes
/// first: it finds cold caches and a sleeping thread.
pub fn one_by_one(client: &Arc<dyn Client>, count: usize, runtime: &Runtime) -> Vec<f64> {
    let client = Arc::clone(client);
    // A task of its own: the future of `block_on` is on no worker.
    let task = runtime.spawn(async move {
        let mut times = Vec::with_capacity(count + 1);
        for _ in 0..=count {
            let start = Instant::now();
            client.locked("uncontended".to_owned(), Duration::ZERO, empty()).await.unwrap();
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times
    });
    runtime.block_on(task).unwrap().split_off(1)
}
