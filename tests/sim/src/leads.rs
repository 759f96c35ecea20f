//! Candidates, and the bodies of their terms: each acts only while its process leads, by its own
//! account, and is not there any more when the next one begins.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use redlock_runtime::{LeadError, LockError, LockManager, Term};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::callers::key;
use crate::oracle::CallId;
use crate::plan::{BodyEnds, Hold};
use crate::run::judge;
use crate::world::{ProcessId, World};

/// A body looks at its term so often.
const STEP: Duration = Duration::from_millis(7);

type Leading = Pin<Box<dyn Future<Output = Result<(), LeadError<&'static str>>> + Send>>;

/// A caller that stands by and leads.
#[derive(Clone)]
struct Candidate {
    id: CallId,
    process: ProcessId,
    key: String,
    hold: Duration,
    ends: BodyEnds,
    inherits: bool,
}

/// A body that runs, until it is dropped.
struct Body {
    candidate: Candidate,
    has_failed: bool,
}

impl Candidate {
    fn begins(&self) {
        judge(|oracle| oracle.begins(self.id, self.process, vec![self.key.clone()], None, self.inherits));
    }

    /// The future of the library is seen to be `Send` where nothing else is around it.
    fn lead(&self, locks: &LockManager, ttl: u64) -> Leading {
        let election = locks.election(&self.key).ttl(Duration::from_millis(ttl));
        let election = election.label(format!("call-{}", self.id));
        let election = if self.ends == BodyEnds::StopsOnError { election.stop_on_error() } else { election };
        let candidate = self.clone();
        Box::pin(election.lead(async move |term| {
            let until = Instant::now() + candidate.hold;
            let mut body = Body::begin(candidate.clone(), &term);
            while Instant::now() < until {
                sleep(STEP).await;
                judge(|oracle| oracle.acts(body.candidate.id, &term));
            }
            match body.candidate.ends {
                BodyEnds::Returns => Ok(()),
                BodyEnds::Fails | BodyEnds::StopsOnError => {
                    body.has_failed = true;
                    Err("no more invoices")
                }
                BodyEnds::Resigns => {
                    term.resign();
                    pending().await
                }
            }
        }))
    }
}

impl Body {
    fn begin(candidate: Candidate, term: &Term) -> Self {
        World::here().note(|| format!("call {} leads, term {}", candidate.id, term.number()));
        let mut has_paused = false;
        judge(|oracle| has_paused = oracle.is_pausing(candidate.id));
        if has_paused {
            candidate.begins();
        }
        judge(|oracle| oracle.leads(candidate.id, term));
        Self { candidate, has_failed: false }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        World::here().note(|| format!("call {} leads no longer", self.candidate.id));
        if self.has_failed {
            judge(|oracle| oracle.pauses(self.candidate.id));
        } else {
            judge(|oracle| oracle.ends(self.candidate.id, Duration::ZERO));
            self.candidate.begins();
        }
    }
}

/// Stands by and leads until the body returns, or the caller leaves.
pub(crate) async fn perform(
    id: CallId,
    process: ProcessId,
    hold: Hold,
    ends: BodyEnds,
    locks: LockManager,
    inherits: bool,
) -> Result<(), LockError> {
    let candidate = Candidate {
        id,
        process,
        key: key(hold.keys[0]),
        hold: Duration::from_millis(hold.hold),
        ends,
        inherits,
    };
    World::here().note(|| format!("call {id} of process {} is a candidate: {hold:?}", process.0));
    let leaves_at = Instant::now() + Duration::from_millis(hold.leaves_after.unwrap_or(0));
    loop {
        candidate.begins();
        match timeout_at(leaves_at, candidate.lead(&locks, hold.ttl)).await {
            Ok(Err(LeadError::Body(_))) => {
                judge(|oracle| oracle.ends(id, Duration::ZERO));
                sleep_until(leaves_at.min(Instant::now() + STEP)).await;
            }
            Ok(Err(LeadError::Lock(error))) => return Err(error),
            Ok(Ok(())) | Err(_) => return Ok(()),
        }
    }
}
