//! Managers that a server refuses all that they ask for, and that end then: they have nothing to
//! give back.

use std::time::Duration;

use redlocked::{LockError, LockManager, LockRequest};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::chaos::workload::caller::{Caller, key};
use crate::chaos::workload::report::{CallParams, CallReport, IO_TIMEOUT};

/// The number of a call that ends a manager; it is no key's.
pub(crate) const ENDS: u64 = 998;

/// How long a manager may take that has something to give back.
const GRACE: Duration = Duration::from_secs(3);

/// The ttl of what is asked for: what is owed is owed for so long.
const TTL: Duration = Duration::from_secs(20);

impl Caller {
    /// Has a manager ready that has only connected. When the server refuses what the one of the
    /// process asks for, that one asks, too, and ends.
    pub(crate) async fn ends_refused(mut self, ended: watch::Receiver<bool>, url: &str) {
        let mut ready = None;
        while !*ended.borrow() {
            sleep(Duration::from_millis(self.random.between(10, 40))).await;
            let Some(locks) = &ready else {
                ready = connected(url).await;
                continue;
            };
            let (request, _) = self.request();
            if is_refused_to(request.wait(Duration::ZERO)).await {
                self.ends(locks).await;
                ready = None;
            }
        }
    }

    async fn ends(&mut self, locks: &LockManager) {
        let first = self.random.between(0, self.keys.1);
        let keys = [0, 1].map(|other| key(self.keys.0 + (first + other) % self.keys.1));
        let waits = [0, 100].map(Duration::from_millis);
        let one = |wait| is_refused_to(locks.lock(&keys[0]).ttl(TTL).wait(wait));
        let all = |wait| is_refused_to(locks.lock_all(keys.clone()).ttl(TTL).wait(wait));
        let refused = tokio::join!(one(waits[0]), one(waits[1]), all(waits[0]), all(waits[1]));
        let is_refused = refused == (true, true, true, true);
        if !is_refused {
            // It may have something to give back.
            return;
        }
        let call_params =
            CallParams { key: ENDS, hold: self.number(), ttl: TTL, wait: Duration::ZERO, allows: None };
        let call = CallReport::begin(call_params, &self.ticker);
        let outcome = locks.shutdown(GRACE).await;
        call.comes_back(&outcome);
    }
}

async fn connected(url: &str) -> Option<LockManager> {
    let locks = LockManager::builder(url).io_timeout(IO_TIMEOUT).connect_lazy().ok()?;
    locks.ping().await.ok()?;
    Some(locks)
}

async fn is_refused_to(request: LockRequest) -> bool {
    request.acquire().await.is_err_and(|error| is_refusal(&error))
}

/// The server has answered, and with its reason.
fn is_refusal(error: &LockError) -> bool {
    let error = error.to_string();
    ["OOM", "NOPERM", "MISCONF", "READONLY", "CLUSTERDOWN"].iter().any(|code| error.contains(code))
}
