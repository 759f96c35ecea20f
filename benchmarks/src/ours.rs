//! redlocked: async, sync, and on `memory://`.

use std::sync::Arc;
use std::time::Duration;

use redlocked::LockManager;

use crate::contender::{Body, Client, Clients, Contender, Kind, Outcome, Part, TTL, blocking};

pub const ASYNC: &str = "redlocked";
pub const MEMORY: &str = "redlocked, memory://";
pub const SYNC: &str = "redlocked, sync";

pub async fn join(all: &mut Vec<Contender>, url: &str, clients: usize) {
    let (mut asynchronous, mut sync) = (Clients::new(), Clients::new());
    for _ in 0..clients {
        let locks = LockManager::connect(url).await.unwrap();
        asynchronous.push(Arc::new(Async(locks.clone())));
        sync.push(Arc::new(Sync(locks)));
    }
    let memory = LockManager::connect("memory://benchmarks").await.unwrap();
    let memory: Clients = (0..clients).map(|_| Arc::new(Async(memory.clone())) as Arc<dyn Client>).collect();
    let contender = |name, part, clients| Contender { name, kind: Kind::Ours, part, clients };
    all.push(contender(ASYNC, Part::Everything, asynchronous));
    all.push(contender(SYNC, Part::Alone, sync));
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
