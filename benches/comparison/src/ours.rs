//! redlocked: an annotated function, one that does not wait for its release, a call with a fencing token, a cohort that passes locks on
//! within a process, and `memory://`.

use std::sync::Arc;
use std::time::Duration;

use kit::contender::{Annotated, Run};
use redlocked::LockManager;

use crate::contender::{Body, Client, Clients, Contender, Kind, Outcome, Part};

pub const ANNOTATED: &str = "redlocked, annotated async fn";
pub const BACKGROUND: &str = "redlocked, released in the background";
pub const RUN: &str = "redlocked, run with a fencing token";
pub const MEMORY: &str = "redlocked, memory://";
pub const COHORT: &str = "redlocked, cohort of 32";

pub async fn join(all: &mut Vec<Contender>, url: &str, clients: usize) {
    let (mut annotated, mut run, mut cohorts) = (Clients::new(), Clients::new(), Clients::new());
    let mut background = Clients::new();
    for _ in 0..clients {
        cohorts.push(Arc::new(Annotated(LockManager::builder(url).cohort(32).connect().await.unwrap())));
        background.push(released_in_background(url).await);
        let locks = LockManager::connect(url).await.unwrap();
        annotated.push(Arc::new(Annotated(locks.clone())));
        run.push(Arc::new(Run(locks)));
    }
    let memory = LockManager::connect("memory://benchmarks").await.unwrap();
    let memory: Clients = (0..clients).map(|_| Arc::new(Annotated(memory.clone())) as _).collect();
    let contender = |name, part, clients| Contender { name, kind: Kind::Ours, part, clients };
    all.push(contender(ANNOTATED, Part::Everything, annotated));
    all.push(contender(BACKGROUND, Part::Free, background));
    all.push(contender(RUN, Part::Free, run));
    all.push(contender(COHORT, Part::Waiting, cohorts));
    all.push(contender(MEMORY, Part::Everything, memory));
}

/// An annotated function whose callers do not wait for its release.
pub async fn released_in_background(url: &str) -> Arc<dyn Client> {
    let locks = LockManager::builder(url).default_release_in_background(true).connect().await.unwrap();
    Arc::new(InBackground(Annotated(locks)))
}

/// Has keys of its own: the lock may still be there when the next contender comes.
struct InBackground(Annotated);

impl Client for InBackground {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        self.0.locked(format!("background:{key}"), wait, body)
    }
}
