//! The bodies of a run that run once: which caller has run which, and what must hold for their
//! results. All that return have the same one while its record lasts. Without an accident, which is
//! what the judge knows to have gone wrong around the runner, a body runs once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redlock_runtime::{LockError, LockGuard, LockManager, LockRequest, OnInterrupted};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::callers::key;
use crate::oracle::{CallId, Oracle, nanos};
use crate::plan::{Hold, Once, Plan, Topology};
use crate::run::judge;
use crate::server::Version;
use crate::world::World;

const MILLISECOND: u64 = 1_000_000;

/// What is left of its lease, a body tells so often.
const STEP: Duration = Duration::from_millis(7);

/// An answer is under way for so long, at most.
const UNDER_WAY: u64 = 1_000 * MILLISECOND;

/// With so much of its lease left, a release stores the result, if nothing goes wrong.
const ENOUGH: Duration = Duration::from_millis(150);

/// So long a caller may wait beside a result, where nothing goes wrong, and the server tells those
/// that wait for it.
const PROMPT: u64 = 400 * MILLISECOND;

thread_local! {
    static BODIES: RefCell<Bodies> = RefCell::default();
}

#[derive(Default)]
struct Bodies {
    /// By caller: the key, and what it stands for.
    asked: BTreeMap<CallId, (u8, Option<u8>)>,
    runs: BTreeMap<CallId, Run>,
    /// Those that wait, and since when.
    waiting: BTreeMap<CallId, u64>,
    /// When servers may have lost their data.
    forgotten_at: Option<u64>,
    /// The server tells those that wait, and nothing goes wrong.
    is_prompt: bool,
}

/// What one caller has done.
struct Run {
    key: u8,
    began: u64,
    ended: Option<(u64, End)>,
    /// So much was left of its lease then.
    left: Duration,
    /// Its result lasts so long.
    lasts: u64,
    /// When a caller first returned its result.
    returned: Option<u64>,
    /// It was dropped, has lost the lock, or its result was not stored.
    is_interrupted: bool,
    /// It runs no more.
    is_over: bool,
    /// When it has last run.
    seen: u64,
    /// Data were lost since it began.
    is_forgotten: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Well,
    Failed,
}

impl Run {
    /// Up to then its result is on the server, if it was stored.
    fn lasts_until(&self) -> Option<u64> {
        let (at, end) = self.ended?;
        (end == End::Well && !self.is_forgotten).then_some(at + self.lasts)
    }

    fn has_failed(&self) -> bool {
        matches!(self.ended, Some((_, End::Failed)))
    }
}

/// What a body gives its caller in the place of a result.
enum Failed {
    Body,
    Lock(LockError),
}

impl From<LockError> for Failed {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// Begins a new run of this plan.
pub fn begin(plan: &Plan) {
    let is_told = matches!(plan.topology, Topology::One(version) if version != Version::Redis5);
    let is_prompt = is_told && plan.is_calm() && plan.latency.late == 0;
    BODIES.with_borrow_mut(|bodies| *bodies = Bodies { is_prompt, ..Bodies::default() });
}

/// Servers may have lost their data.
pub fn forget() {
    BODIES.with_borrow_mut(|bodies| {
        bodies.forgotten_at = Some(World::here().now());
        bodies.runs.values_mut().for_each(|run| run.is_forgotten = true);
    });
}

fn violated(property: &'static str, number: u8, what: &str) {
    judge(|oracle| oracle.violated(property, format!("{}: {what}", key(number))));
}

fn has_met_an_accident(call: CallId, number: u8) -> bool {
    let mut has_met = false;
    judge(|oracle| has_met = oracle.has_met_an_accident(call, &key(number)));
    has_met
}

/// A caller asks for the result of a body that runs once, and runs it if it has to.
pub(crate) async fn perform(
    id: CallId,
    hold: &Hold,
    once: Once,
    request: LockRequest,
    locks: &LockManager,
) -> Result<(), LockError> {
    let number = hold.keys[0];
    let asked = World::here().now();
    BODIES.with_borrow_mut(|bodies| {
        bodies.asked.insert(id, (number, once.by));
        bodies.waiting.insert(id, asked);
    });
    let _waits = Waits(id);
    let request = request.once(Duration::from_millis(once.lasts)).on_interrupted(once.on_interrupted);
    let request = match once.by {
        Some(by) => request.fingerprint(by.to_string()),
        None => request,
    };
    let hold_of_body = hold.clone();
    let asking = async {
        if once.spawn {
            request.run_spawned(async move |guard| body(id, &hold_of_body, once, asked, &guard).await).await
        } else {
            request.run(async |guard| body(id, hold, once, asked, guard).await).await
        }
    };
    let outcome = match hold.leaves_after {
        Some(after) => {
            let in_time = timeout_at(Instant::now() + Duration::from_millis(after), asking).await;
            let Ok(outcome) = in_time else {
                if once.spawn {
                    wait_for_body(id).await;
                }
                return Ok(());
            };
            outcome
        }
        None => asking.await,
    };
    match outcome {
        Ok(result) => {
            World::here().note(|| format!("call {id} has {result:?}"));
            on_result(id, number, once.by, result.is_replayed(), result.into_inner());
            Ok(())
        }
        Err(Failed::Body) => Ok(()),
        Err(Failed::Lock(error)) => {
            on_error(id, number, once, &error);
            let is_for_operators = matches!(error, LockError::Interrupted { .. });
            if is_for_operators && once.clears {
                World::here().note(|| format!("call {id} clears k{number}"));
                on_cleared(number);
                let outcome = locks.clear_once(&key(number)).await;
                on_cleared(number);
                outcome?;
            }
            Err(error)
        }
    }
}

/// The judge knows of the call until its body is over, which may have begun in the last moment.
async fn wait_for_body(id: CallId) {
    sleep_until(Instant::now() + 10 * STEP).await;
    while BODIES.with_borrow(|bodies| bodies.runs.get(&id).is_some_and(|run| !run.is_over)) {
        sleep_until(Instant::now() + STEP).await;
    }
}

/// It waits no more, also when it is dropped.
struct Waits(CallId);

impl Drop for Waits {
    fn drop(&mut self) {
        let _ = BODIES.try_with(|bodies| bodies.borrow_mut().waiting.remove(&self.0));
    }
}

/// A body that runs, until it is dropped.
struct Body<'a> {
    id: CallId,
    guard: &'a LockGuard,
    /// When its lease ends, as it has seen it last.
    ends: Arc<AtomicU64>,
    is_over: bool,
    /// No caller stops it.
    is_alone: bool,
}

impl Body<'_> {
    fn look(&self) {
        let now = World::here().now();
        self.ends.store(now + nanos(self.guard.remaining()), Ordering::Relaxed);
        BODIES.with_borrow_mut(|bodies| {
            if let Some(run) = bodies.runs.get_mut(&self.id) {
                run.seen = now;
            }
        });
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let _ = BODIES.try_with(|bodies| {
            if let Some(run) = bodies.borrow_mut().runs.get_mut(&self.id) {
                run.is_over = true;
                // By an accident only, if no caller can stop it.
                run.is_interrupted |= !self.is_alone || !self.guard.is_held();
            }
        });
        if !self.guard.is_held() {
            judge(|oracle| oracle.loses(self.id));
        }
    }
}

async fn body(id: CallId, hold: &Hold, once: Once, asked: u64, guard: &LockGuard) -> Result<CallId, Failed> {
    let (since, number) = (Instant::now(), hold.keys[0]);
    let mut body = Body { id, guard, ends: Arc::default(), is_over: false, is_alone: once.spawn };
    body.look();
    judge(|oracle| oracle.runs(id, &body.ends, guard));
    World::here().note(|| format!("call {id} runs, fencing token {}", guard.fencing_token()));
    on_begun(id, number, once, asked, guard.is_held());
    let until = since + Duration::from_millis(hold.hold);
    while Instant::now() < until {
        sleep_until(until.min(Instant::now() + STEP)).await;
        body.look();
    }
    let left = guard.remaining();
    if !guard.is_held() {
        judge(|oracle| oracle.loses(id));
    }
    body.is_over = true;
    judge(|oracle| oracle.ends(id, Duration::ZERO));
    let end = if once.fails { End::Failed } else { End::Well };
    let now = World::here().now();
    BODIES.with_borrow_mut(|bodies| {
        if let Some(run) = bodies.runs.get_mut(&id) {
            (run.ended, run.left, run.is_over) = (Some((now, end)), left, true);
            // Nobody may hear that its result is not stored.
            run.is_interrupted |= once.spawn && left <= ENOUGH;
        }
    });
    if once.fails { Err(Failed::Body) } else { Ok(id) }
}

fn on_begun(id: CallId, number: u8, once: Once, asked: u64, is_held: bool) {
    let now = World::here().now();
    let before: Vec<_> = BODIES.with_borrow_mut(|bodies| {
        bodies.waiting.remove(&id);
        let others = bodies.runs.iter().filter(|(_, run)| run.key == number && !run.is_forgotten);
        let before = others.map(|(other, run)| {
            let has_result = run.returned.is_some() && run.lasts_until().is_some_and(|until| now < until);
            let may_be_over = run.has_failed() || run.lasts_until().is_some_and(|until| now >= until);
            // The record of a body that has begun lasts from its end on, and that of a killed one from the
            // end of its lease.
            let is_known = !run.has_failed() && now < run.seen + run.lasts;
            (*other, has_result, run.is_interrupted || may_be_over, is_known)
        });
        let before = before.collect();
        let lasts = once.lasts * MILLISECOND;
        let run = Run {
            key: number,
            began: now,
            ended: None,
            left: Duration::ZERO,
            lasts,
            returned: None,
            is_interrupted: false,
            is_over: false,
            seen: asked,
            // The answer may have been under way then.
            is_forgotten: bodies.forgotten_at.is_some_and(|at| asked <= at && now < at + UNDER_WAY),
        };
        bodies.runs.insert(id, run);
        before
    });
    // Else it had the lock before the other one, and has lost it.
    let mut is_taken_away = !is_held;
    judge(|oracle| is_taken_away |= oracle.may_have_lost_lock(id, &key(number)));
    for (other, has_result, is_excused, is_known) in before {
        if has_result && !is_taken_away {
            violated("a body runs once", number, &format!("call {id} runs, call {other} has the result"));
        } else if !is_excused && !is_taken_away && !has_met_an_accident(other, number) {
            violated("a body runs once", number, &format!("calls {other} and {id} run"));
        } else if is_known && once.on_interrupted == OnInterrupted::Error && !is_taken_away {
            let what = format!("call {id} runs, call {other} was interrupted");
            violated("an interrupted body waits for an operator", number, &what);
        }
    }
}

/// A caller has a result.
fn on_result(id: CallId, number: u8, by: Option<u8>, is_replayed: bool, runner: CallId) {
    const ONE_RESULT: &str = "all callers of a body have one result";
    let now = World::here().now();
    let wrong = BODIES.with_borrow_mut(|bodies| {
        let is_of_its_own = bodies.asked.get(&runner) == Some(&(number, by)) && (runner != id) == is_replayed;
        let run = bodies.runs.get_mut(&runner)?;
        run.returned.get_or_insert(now);
        let (began, over) = (run.began, run.lasts_until());
        let is_done = matches!(run.ended, Some((_, End::Well)));
        if !is_of_its_own || !is_done {
            return Some(format!("call {id} has that of call {runner}"));
        }
        // The one that was stored later had the lock only when the other was over.
        let over = over?;
        let mut others = bodies
            .runs
            .iter()
            .filter(|(other, run)| **other != runner && run.key == number && run.returned.is_some());
        let other = others
            .find(|(_, run)| run.lasts_until().is_some_and(|others| run.began < over && began < others));
        other.map(|(other, _)| format!("call {id} has that of call {runner}, others have that of {other}"))
    });
    if let Some(what) = wrong {
        violated(ONE_RESULT, number, &what);
    }
}

/// A caller has an error in the place of a result.
fn on_error(id: CallId, number: u8, once: Once, error: &LockError) {
    match error {
        LockError::Interrupted { by, .. } => {
            let runner = by.function().and_then(|label| label.strip_prefix("call-")?.parse().ok());
            let what = format!("call {id} is told so of {runner:?}");
            let Some(runner) = runner else {
                violated("a body is interrupted by an accident", number, &what);
                return;
            };
            let is_interrupted = BODIES.with_borrow(|bodies| {
                bodies.runs.get(&runner).is_some_and(|run| run.is_interrupted || run.is_forgotten)
            });
            let is_asked = once.on_interrupted == OnInterrupted::Error;
            if !is_asked || !is_interrupted && !has_met_an_accident(runner, number) {
                violated("a body is interrupted by an accident", number, &what);
            }
        }
        LockError::KeyReused { .. } => {
            let stands_for = |other: &(u8, Option<u8>)| other.0 == number && other.1 != once.by;
            let has_other = BODIES.with_borrow(|bodies| bodies.asked.values().any(stands_for));
            if !has_other {
                let what = format!("call {id} is told of another request, and there was none");
                violated("all callers of a body have one result", number, &what);
            }
        }
        LockError::NotStored { .. } | LockError::Lost { .. } => {
            let left = BODIES.with_borrow_mut(|bodies| {
                let run = bodies.runs.get_mut(&id)?;
                run.is_interrupted = true;
                Some(run.left)
            });
            let left = left.unwrap_or_default();
            let is_not_stored = matches!(error, LockError::NotStored { .. });
            if is_not_stored && left > ENOUGH && !has_met_an_accident(id, number) {
                let what = format!("that of call {id} is not, {left:?} before the end of its lease");
                violated("a result is stored", number, &what);
            }
        }
        _ => {}
    }
}

/// An operator lets the body run again.
fn on_cleared(number: u8) {
    BODIES.with_borrow_mut(|bodies| {
        let runs = bodies.runs.values_mut().filter(|run| run.key == number);
        runs.for_each(|run| run.is_forgotten = true);
    });
}

/// Looks whether a caller waits beside a result.
pub(crate) fn look(oracle: &mut Oracle, is_healthy: impl Fn(CallId) -> bool, slack: u64) {
    let now = World::here().now();
    let late = BODIES.with_borrow(|bodies| {
        let of_key = |number| move |asked: &&(u8, Option<u8>)| asked.0 == number;
        let is_late = |(call, since): (&CallId, &u64)| {
            let (number, _) = *bodies.asked.get(call)?;
            let is_there =
                |run: &&Run| run.key == number && run.lasts_until().is_some_and(|until| now < until);
            let run = bodies.runs.values().filter(is_there).filter_map(|run| run.returned).min()?;
            let callers = bodies.asked.values().filter(of_key(number)).count();
            let bound = if bodies.is_prompt { PROMPT } else { oracle.longest_poll(callers) };
            let since = oracle.quiet_since_all().max(run).max(*since);
            (is_healthy(*call) && now > since + bound + slack).then_some((*call, number))
        };
        bodies.waiting.iter().find_map(is_late)
    });
    if let Some((call, number)) = late {
        oracle.violated("nobody waits beside a result", format!("{}: call {call}", key(number)));
    }
}
