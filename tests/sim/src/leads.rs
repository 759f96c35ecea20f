//! Candidates, and the bodies of their terms: each acts only while its process leads, by its own
//! account, and is not there any more when the next one begins.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redlock_runtime::{Election, LeadError, Leader, LockError, LockManager, Observer, Term};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};

use crate::callers::key;
use crate::oracle::CallId;
use crate::plan::{BodyEnds, Hold, Plan, Topology};
use crate::run::judge;
use crate::server::Version;
use crate::world::{ProcessId, World, spawn_here};

/// A body looks at its term so often.
const STEP: Duration = Duration::from_millis(7);

/// A body that blocks does so for so long.
const BLOCKS: Duration = Duration::from_secs(15);

/// By default, an async body may be blocked for its ttl, and for this time at least.
const LEAST_MAX_BLOCKED: Duration = Duration::from_secs(1);

/// With its last renewal on its way, and the next leader on its way back.
const REPLACED_WITHIN: Duration = Duration::from_millis(500);

/// A task that a body has spawned notices the end of the term within so many of its own steps.
const STEPS_TO_TELL: u32 = 5;

/// A leader asks so often who leads, and is seen by all when it has led for twice as long.
const ASKS: Duration = Duration::from_millis(400);

thread_local! {
    static SEEN: RefCell<Seen> = RefCell::default();
}

/// What observers have seen.
#[derive(Default)]
struct Seen {
    /// By candidate: the key, since when it observes, and the term that it saw last.
    last: BTreeMap<CallId, Observed>,
    /// There is a record beside the lock.
    has_record: bool,
    /// The server tells of its changes.
    is_told: bool,
    /// Nothing goes wrong, and each process tells the server at once who leads.
    is_calm: bool,
}

#[derive(Clone)]
struct Observed {
    key: String,
    since: Instant,
    term: Option<u64>,
}

/// Before a run of this plan.
pub(crate) fn begin(plan: &Plan) {
    let has_record = !matches!(plan.topology, Topology::Quorum(..));
    let is_told = has_record && plan.topology.version() != Version::Redis5;
    let in_cohorts = plan.processes.iter().any(|process| process.cohort > 0);
    let is_calm = plan.is_calm() && !in_cohorts;
    let now = Seen { has_record, is_told, is_calm, ..Seen::default() };
    SEEN.with_borrow_mut(|seen| *seen = now);
}

fn seen<T>(look: impl FnOnce(&mut Seen) -> T) -> T {
    SEEN.with_borrow_mut(look)
}

type Leading = Pin<Box<dyn Future<Output = Result<(), LeadError<&'static str>>> + Send>>;

/// A caller that waits and leads.
#[derive(Clone)]
struct Candidate {
    id: CallId,
    process: ProcessId,
    key: String,
    hold: Duration,
    ends: BodyEnds,
    inherits: bool,
}

/// Until when the thread of a body is blocked.
type Blocked = Arc<Mutex<Option<Instant>>>;

/// The future of a leader, which is not polled while the thread of its body is blocked.
struct MayBlock {
    lead: Leading,
    blocked: Blocked,
    over: Option<Pin<Box<Sleep>>>,
}

impl Future for MayBlock {
    type Output = Result<(), LeadError<&'static str>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(over) = &mut self.over {
                ready!(over.as_mut().poll(cx));
                self.over = None;
            }
            let polled = self.lead.as_mut().poll(cx);
            let blocked = self.blocked.lock().ok().and_then(|mut blocked| blocked.take());
            match blocked {
                Some(until) => self.over = Some(Box::pin(sleep_until(until))),
                None => return polled,
            }
        }
    }
}

/// Another one leads after a leader that gives no sign of life, or nobody does.
async fn is_replaced(id: CallId, election: Election, number: u64, ttl: Duration) {
    sleep(ttl.max(LEAST_MAX_BLOCKED) + ttl + REPLACED_WITHIN).await;
    let Ok(found) = election.leader().await else { return };
    let (has_record, is_calm) = seen(|seen| (seen.has_record, seen.is_calm));
    if has_record && is_calm && found.as_ref().and_then(Leader::fencing_token) == Some(number) {
        let what = format!("call {id}, term {number}: {found:?}");
        judge(|oracle| oracle.violated("a leader that blocks is replaced", what));
    }
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
        let election = if seen(|seen| seen.has_record) {
            election.announce(format!("candidate {}", self.id))
        } else {
            election
        };
        let candidate = self.clone();
        let blocked = Blocked::default();
        let blocks = Arc::clone(&blocked);
        let lead = Box::pin(election.clone().lead(async move |term| {
            let until = Instant::now() + candidate.hold;
            waits_for_its_end(candidate.id, term.clone());
            spawn_here(is_seen(candidate.id, election.clone(), term.clone()));
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
                BodyEnds::Blocks => {
                    let ttl = Duration::from_millis(ttl);
                    spawn_here(is_replaced(candidate.id, election.clone(), term.fencing_token(), ttl));
                    if let Ok(mut blocked) = blocks.lock() {
                        *blocked = Some(Instant::now() + BLOCKS);
                    }
                    pending().await
                }
            }
        }));
        Box::pin(MayBlock { lead, blocked, over: None })
    }
}

/// A task that the body leaves behind notices the end of the term.
fn waits_for_its_end(id: CallId, term: Term) {
    let is_told = Arc::new(AtomicBool::new(false));
    let (told, waits) = (Arc::clone(&is_told), term.clone());
    spawn_here(async move {
        waits.ended().await;
        told.store(true, Ordering::Relaxed);
        if waits.is_leading() {
            let what = format!("call {id}, term {}: it goes on", waits.fencing_token());
            judge(|oracle| oracle.violated("a task is told of the end of its term", what));
        }
    });
    // Another task, because a look of the first one would be a poll.
    spawn_here(async move {
        let mut late = 0;
        while !is_told.load(Ordering::Relaxed) {
            sleep(STEP).await;
            late += u32::from(!term.is_leading());
            if late > STEPS_TO_TELL {
                let what = format!("call {id}, term {}: it is over", term.fencing_token());
                judge(|oracle| oracle.violated("a task is told of the end of its term", what));
                return;
            }
        }
    });
}

/// The leader, as the server sees it while the term lasts by its own account.
async fn is_seen(id: CallId, election: Election, term: Term) {
    let key = election.key().to_owned();
    let number = term.fencing_token();
    for asked in 1.. {
        sleep(ASKS).await;
        if !term.is_leading() {
            return;
        }
        let found = election.leader().await;
        let (Ok(found), true) = (found, term.is_leading()) else { continue };
        let (has_record, is_told, is_calm) = seen(|seen| (seen.has_record, seen.is_told, seen.is_calm));
        let by = found.as_ref().and_then(Leader::fencing_token);
        let is_it = match by {
            Some(by) => by == number,
            None => found.is_some() && !(has_record && is_calm),
        };
        judge(|oracle| {
            if !is_it && !oracle.may_have_lost_lock(id, &key) {
                oracle
                    .violated("the server knows its leader", format!("call {id}, term {number}: {found:?}"));
            }
        });
        if is_told && is_calm && asked >= 2 {
            let late = seen(|seen| {
                let is_late = |observed: &&Observed| {
                    observed.key == key
                        && observed.since.elapsed() > 2 * ASKS
                        && observed.term != Some(number)
                };
                seen.last.values().find(is_late).map(|observed| observed.term)
            });
            if let Some(last) = late {
                let what = format!("call {id}, term {number}: an observer has seen {last:?} last");
                judge(|oracle| oracle.violated("an observer sees who leads", what));
            }
        }
    }
}

/// Observes the election until then.
async fn observes(candidate: Candidate, mut changes: Observer, until: Instant) {
    let Candidate { id, key, .. } = candidate;
    let since = Instant::now();
    let first = Observed { key: key.clone(), since, term: None };
    seen(|seen| seen.last.insert(id, first));
    let mut before: Option<Option<Leader>> = None;
    loop {
        let now = match timeout_at(until, changes.changed()).await {
            Ok(Ok(())) => changes.leader().cloned(),
            Ok(Err(LockError::ManagerClosed { .. } | LockError::Misconfigured { .. })) | Err(_) => break,
            Ok(Err(_)) => continue,
        };
        let is_change = match (&before, &now) {
            (None, _) => true,
            (Some(Some(before)), Some(now)) => !before.is_same_term(now),
            (Some(before), now) => before.is_some() || now.is_some(),
        };
        let of = |leader: &Option<Leader>| leader.as_ref().and_then(Leader::fencing_token);
        let last = seen(|seen| seen.last.get(&id).and_then(|observed| observed.term));
        judge(|oracle| {
            if !is_change {
                oracle.violated("an observer sees changes", format!("call {id}: {now:?} again"));
            }
            if of(&now) < last && of(&now).is_some() && !oracle.may_have_lost_lock(id, &key) {
                oracle.violated("an observer sees terms grow", format!("call {id}: {now:?} behind {last:?}"));
            }
        });
        seen(|seen| {
            if let Some(observed) = seen.last.get_mut(&id) {
                observed.term = of(&now).or(last);
            }
        });
        before = Some(now);
    }
    seen(|seen| seen.last.remove(&id));
}

impl Body {
    fn begin(candidate: Candidate, term: &Term) -> Self {
        World::here().note(|| format!("call {} leads, term {}", candidate.id, term.fencing_token()));
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

/// Waits and leads until the body returns, or the caller leaves.
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
    let changes = locks.election(&candidate.key).observe();
    spawn_here(observes(candidate.clone(), changes, leaves_at));
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
