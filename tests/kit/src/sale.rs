//! A flash sale in one process: requests for one item, a fixed number at a time, each with an INCR
//! under the lock.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::bare::connect;
use crate::contender::Client;
use crate::unique;

/// Requests for one item, each with a limit to its wait.
#[derive(Clone, Copy)]
pub struct Sale {
    /// All of them.
    pub requests: u32,
    /// How many are under way together.
    pub at_a_time: u32,
    /// After this one is sent away.
    pub wait: Duration,
}

/// The result of a sale.
pub struct Day {
    /// In seconds.
    pub lasted: f64,
    /// The wait of each request that was served, in milliseconds.
    pub waits: Vec<f64>,
    /// The requests that got no lock.
    pub failed: u32,
    /// The requests that were inside together with another one.
    pub overlaps: u32,
}

impl Sale {
    /// Serves all requests, in the runtime of the caller.
    pub async fn hold(self, url: &str, client: &Arc<dyn Client>) -> Day {
        let (key, sold) = (unique("item"), unique("sold"));
        let connection = connect(url).await;
        let waits = Arc::new(Mutex::new(Vec::new()));
        let (next, failed, overlaps) =
            (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let occupied = Arc::new(AtomicBool::new(false));
        let start = Instant::now();
        let tasks: Vec<_> = (0..self.at_a_time)
            .map(|_| {
                let (client, key, sold, connection, waits) =
                    (Arc::clone(client), key.clone(), sold.clone(), connection.clone(), Arc::clone(&waits));
                let (next, failed, overlaps, occupied) =
                    (Arc::clone(&next), Arc::clone(&failed), Arc::clone(&overlaps), Arc::clone(&occupied));
                tokio::spawn(async move {
                    while next.fetch_add(1, Ordering::Relaxed) < self.requests {
                        let (overlaps, occupied) = (Arc::clone(&overlaps), Arc::clone(&occupied));
                        let (mut connection, sold) = (connection.clone(), sold.clone());
                        let body = async move {
                            if occupied.swap(true, Ordering::SeqCst) {
                                overlaps.fetch_add(1, Ordering::SeqCst);
                            }
                            let incr =
                                redis::cmd("INCR").arg(&sold).query_async::<u32>(&mut connection).await;
                            incr.unwrap();
                            occupied.store(false, Ordering::SeqCst);
                        };
                        let asked = Instant::now();
                        match client.locked(key.clone(), self.wait, Box::pin(body)).await {
                            Ok(()) => waits.lock().unwrap().push(asked.elapsed().as_secs_f64() * 1e3),
                            Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let waits = std::mem::take(&mut *waits.lock().unwrap());
        Day {
            lasted: start.elapsed().as_secs_f64(),
            waits,
            failed: failed.load(Ordering::Relaxed),
            overlaps: overlaps.load(Ordering::SeqCst),
        }
    }
}
