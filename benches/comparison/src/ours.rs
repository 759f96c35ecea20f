//! redlocked: async, sync, with a cohort that passes locks on within a process, and on `memory://`.

use std::sync::Arc;
use std::time::Duration;

use redlocked::LockManager;

use crate::contender::{Body, Client, Clients, Contender, Kind, Outcome, Part, TTL, blocking};

pub const ASYNC: &str = "redlocked";
pub const MEMORY: &str = "redlocked, memory://";
pub const SYNC: &str = "redlocked, sync";
pub const COHORT: &str = "redlocked, cohort of 32";

pub async fn join(all: &mut Vec<Contender>, url: &str, clients: usize) {
    let (mut asynchronous, mut sync, mut cohorts) = (Clients::new(), Clients::new(), Clients::new());
    for _ in 0..clients {
        cohorts.push(Arc::new(Async(LockManager::builder(url).cohort(32).connect().await.unwrap())));
        let locks = LockManager::connect(url).await.unwrap();
        asynchronous.push(Arc::new(Async(locks.clone())));
        sync.push(Arc::new(Sync(locks)));
    }
    let memory = LockManager::connect("memory://benchmarks").await.unwrap();
    let memory: Clients = (0..clients).map(|_| Arc::new(Async(memory.clone())) as Arc<dyn Client>).collect();
    let contender = |name, part, clients| Contender { name, kind: Kind::Ours, part, clients };
    all.push(contender(ASYNC, Part::Everything, asynchronous));
    all.push(contender(SYNC, Part::Alone, sync));
    all.push(contender(COHORT, Part::Waiting, cohorts));
    all.push(contender(MEMORY, Part::Everything, memory));
}

struct Async(LockManager);

impl Client for Async {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let request = self.0.lock(key).ttl(TTL).wait(wait);
            request.run(async |_| body.await).await.map_err(|error| error.to_string())
        })
    }
}

struct Sync(LockManager);

impl Client for Sync {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        let request = self.0.lock(key).ttl(TTL).wait(wait);
        Box::pin(blocking(wait, body, move |body| {
            request.run_blocking(|_| body()).map_err(|error| error.to_string())
        }))
    }
}
