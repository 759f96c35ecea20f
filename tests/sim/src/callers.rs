//! What the callers of a plan do, in the words of the library.

use std::cell::Cell;
use std::future::{Future, pending};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Waker};
use std::time::Duration;

use redlock_runtime::simulation::unfenced;
use redlock_runtime::{LockError, LockGuard, LockKey, LockManager, LockRequest, ReleaseOutcome};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::exits;
use crate::forks::powers_of_a_child;
use crate::leads;
use crate::once;
use crate::oracle::{CallId, nanos};
use crate::plan::{Call, Gift, Hold, ProcessPlan, TICK, Way, What};
use crate::room::Want;
use crate::run::{judge, tell};
use crate::tickets::{self, Given};
use crate::ticks;
use crate::world::{ProcessId, World};

/// How long a caller waits whose body polls another task.
const NESTED_WAIT: Duration = Duration::from_millis(500);

/// The name of a lock.
#[must_use]
pub fn key(number: u8) -> String {
    format!("k{number}")
}

/// Does what the plan says.
pub async fn perform(id: CallId, process: ProcessId, call: Call, locks: LockManager, settings: ProcessPlan) {
    let _asked = (!matches!(call.what, What::Hold(_))).then(|| {
        judge(|oracle| oracle.begins(id, process, Vec::new(), None, false));
        Ended { id, keeps: Duration::ZERO }
    });
    match call.what {
        What::Hold(hold) => {
            let ended = Ended { id, keeps: Duration::from_millis(hold.min_hold.unwrap_or(0)) };
            let tick = hold.tick.map(|missed| (hold.keys[0], missed));
            let outcome = match hold.leads {
                Some(ends) => {
                    leads::perform(id, process, hold.clone(), ends, locks, settings.cohort > 0).await
                }
                None => keep(id, process, &hold, &locks, settings).await,
            };
            World::here().note(|| format!("call {id}: {}", told(&outcome)));
            if let (Some((key, missed)), Err(error)) = (tick, &outcome) {
                ticks::on_taken(key, missed, error, id);
            }
            if let Err(LockError::Busy { .. } | LockError::TimedOut { .. }) = outcome {
                judge(|oracle| oracle.on_refused(id));
            }
            drop(ended);
            let has_held = outcome.is_ok();
            tell(outcome.err());
            if hold.exits {
                exits::ends(id, process, &hold.keys, has_held);
                pending::<()>().await;
            }
        }
        What::Inspect(number) => tell(locks.inspect(&key(number)).await.err()),
        What::List => tell(locks.list("*").await.err()),
        What::Nested(number) => {
            let (outer, inner) = (locks.lock(key(number)), || locks.lock(key(number)).reentrant(true));
            let outer = unfenced(outer.wait(NESTED_WAIT));
            let outcome = outer.run_value(async |_guard| {
                let joins = joins(inner());
                // The body's own task has it, and draws a fencing token.
                drop(inner().wait(NESTED_WAIT).acquire().await?);
                Ok::<_, LockError>(joins)
            });
            let outcome = outcome.await.flatten();
            if let Ok(true) = outcome {
                let what = format!("call {id} polls a task that has k{number}, too");
                judge(|oracle| oracle.violated("a task is inside of no other task's body", what));
            }
            tell(outcome.err());
        }
        What::Revoke(number) => {
            let outcome = revoke_one(id, &locks, &key(number)).await;
            World::here().note(|| format!("call {id}: revoke one of {number}: {outcome:?}"));
            tell(outcome.err());
        }
        What::SetPermits(number, permits) => {
            let key = key(number);
            judge(|oracle| oracle.limit_begins(id, &key, permits));
            let outcome = match permits {
                Some(permits) => locks.set_permits(&key, permits).await,
                None => locks.clear_permits(&key).await,
            };
            // After an error it may still arrive.
            if outcome.is_ok() {
                judge(|oracle| oracle.limit_ends(id, &key));
            }
            World::here().note(|| format!("call {id}: set_permits {number} {permits:?}: {outcome:?}"));
            tell(outcome.err());
        }
        What::ForceRelease(number) => {
            judge(|oracle| oracle.loss_begins(&key(number)));
            let outcome = locks.force_release(&key(number)).await;
            // After an error it may still arrive.
            if outcome.is_ok() {
                judge(|oracle| oracle.loss_ends(&key(number)));
            }
            World::here().note(|| format!("call {id}: force_release {number}: {:?}", outcome.is_ok()));
            tell(outcome.err());
        }
    }
}

/// Takes the place of one holder away. The others keep theirs.
async fn revoke_one(id: CallId, locks: &LockManager, key: &str) -> Result<bool, LockError> {
    let Some(seen) = locks.inspect(key).await? else { return Ok(false) };
    let holders = seen.holders();
    let Some(holder) = holders.get(id % holders.len().max(1)) else { return Ok(false) };
    // The label of a caller: call-7.
    let call = holder.function().and_then(|label| label.strip_prefix("call-")?.parse().ok());
    if let Some(call) = call.filter(|_| seen.holder().inside().is_some()) {
        judge(|oracle| oracle.set_revoked(call));
        return locks.force_release_from(key, holder).await;
    }
    judge(|oracle| oracle.loss_begins(key));
    let outcome = locks.force_release_from(key, holder).await;
    if outcome.is_ok() {
        judge(|oracle| oracle.loss_ends(key));
    }
    outcome
}

/// True when the lock is there at once for another task that this one polls, as an executor in a
/// sync body does.
fn joins(request: LockRequest) -> bool {
    let (others, has_it) = (LocalSet::new(), Rc::new(Cell::new(false)));
    let seen = Rc::clone(&has_it);
    others.spawn_local(async move { seen.set(request.acquire().await.is_ok()) });
    let _ = pin!(others).poll(&mut Context::from_waker(Waker::noop()));
    has_it.get()
}

fn told(outcome: &Result<(), LockError>) -> String {
    match outcome {
        Ok(()) => "done".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Told to the oracle also when the task is dropped.
struct Ended {
    id: CallId,
    keeps: Duration,
}

impl Drop for Ended {
    fn drop(&mut self) {
        judge(|oracle| oracle.ends(self.id, self.keeps));
    }
}

fn request(id: CallId, hold: &Hold, locks: &LockManager, given: Option<&Given>) -> LockRequest {
    let request = match (hold.keys.as_slice(), given) {
        (_, Some(given)) => locks.redeem(given.ticket.clone()),
        ([one], None) => locks.lock(key(*one)),
        (several, None) => locks.lock_all(several.iter().map(|number| match hold.want_of(*number) {
            Want::READER => LockKey::shared(key(*number)),
            _ => LockKey::exclusive(key(*number)),
        })),
    };
    if let (true, Some(per)) = (hold.starts, hold.min_hold) {
        let request = request.rate(hold.allows, Duration::from_millis(per)).label(format!("call-{id}"));
        return match hold.wait {
            Some(wait) => request.wait(Duration::from_millis(wait)),
            None => request.wait_forever(),
        };
    }
    let request = if hold.fenced { request } else { unfenced(request) };
    let request = match hold.allows {
        0 => request.shared(),
        1 => request,
        permits if hold.takes == 1 => request.permits(permits),
        permits => request.permits(permits).take(hold.takes),
    };
    let request = request.ttl(Duration::from_millis(hold.ttl)).label(format!("call-{id}")).renew(hold.renew);
    let request = match hold.wait {
        Some(wait) => request.wait(Duration::from_millis(wait)),
        None => request.wait_forever(),
    };
    let request = match hold.tick {
        Some(missed) => request.tick(TICK).tick_missed(missed),
        None => request,
    };
    let request = match hold.min_hold {
        Some(min) => request.min_hold(Duration::from_millis(min)),
        None => request,
    };
    match hold.max_hold {
        Some(max) => request.max_hold(Duration::from_millis(max)),
        None => request,
    }
}

async fn keep(
    id: CallId,
    process: ProcessId,
    hold: &Hold,
    locks: &LockManager,
    settings: ProcessPlan,
) -> Result<(), LockError> {
    let given = if hold.redeems { tickets::take(hold.keys[0]) } else { None };
    if hold.redeems && given.is_none() {
        return Ok(());
    }
    let request = request(id, hold, locks, given.as_ref());
    let wait = match hold.wait {
        // One try for each key.
        Some(0) => Some(
            Duration::from_millis(settings.io_timeout) * u32::try_from(hold.keys.len()).unwrap_or(u32::MAX),
        ),
        wait => wait.map(Duration::from_millis),
    };
    let inherits = settings.cohort > 0
        || !hold.fenced && hold.keys.len() == 1 && hold.allows == 1 && hold.once.is_none();
    let keys: Vec<_> = hold.keys.iter().map(|number| key(*number)).collect();
    World::here().note(|| format!("call {id} of process {}: {hold:?}", process.0));
    judge(|oracle| oracle.begins(id, process, keys, wait, inherits));
    if let Some(body) = hold.once {
        return once::perform(id, hold, body, request, locks).await;
    }
    if hold.exits && hold.way == Way::Run {
        return run_in_background(id, hold, request).await;
    }
    let acquiring = request.acquire();
    let guard = match hold.leaves_after {
        Some(after) => match timeout_at(Instant::now() + Duration::from_millis(after), acquiring).await {
            Ok(guard) => guard?,
            Err(_) => return Ok(()),
        },
        None => match (acquiring.await, &given) {
            (Err(error @ LockError::Lost { .. }), Some(given)) => {
                tickets::on_lost(hold.keys[0], given, id);
                return Err(error);
            }
            (outcome, _) => outcome?,
        },
    };
    let guard = Arc::new(guard);
    if let Some(given) = &given {
        tickets::on_redeemed(hold.keys[0], given, id);
    }
    judge(|oracle| oracle.enters(id, &guard));
    if let Some(missed) = hold.tick {
        ticks::on_begun(hold.keys[0], missed, &guard, id);
    }
    if hold.starts {
        World::here().note(|| format!("call {id} starts"));
        judge(|oracle| oracle.ends(id, Duration::from_millis(hold.min_hold.unwrap_or(0))));
        return Ok(());
    }
    World::here().note(|| format!("call {id} is inside, fencing token {}", guard.fencing_token()));
    if hold.forks {
        World::here().note(|| format!("call {id}: process {} forks", process.0));
        for power in powers_of_a_child(locks, &guard, &key(hold.keys[0])) {
            let what = format!("that of call {id} {power}");
            judge(|oracle| oracle.violated("a forked child has no lock", what));
        }
    }
    match hold.way {
        Way::Run => tokio::select! {
            biased;
            _ = guard.lost() => {}
            () = body(id, hold, &guard) => {}
        },
        Way::Release | Way::Drop => body(id, hold, &guard).await,
    }
    if !guard.is_held() {
        judge(|oracle| oracle.loses(id));
    }
    match (hold.way, Arc::try_unwrap(guard), hold.gives) {
        (_, Ok(guard), Some(gift)) => give(id, hold.keys[0], gift, inherits, guard).await,
        (Way::Release | Way::Run, Ok(guard), None) => {
            judge(|oracle| oracle.ends(id, Duration::from_millis(hold.min_hold.unwrap_or(0))));
            let (left, sent) = (guard.remaining(), Instant::now());
            if !left.is_zero() {
                ticks::on_ended_well(hold.keys[0], &guard);
            }
            let outcome = guard.release().await?;
            if outcome == ReleaseOutcome::AlreadyLost && !left.is_zero() {
                judge(|oracle| oracle.says_lost(id, sent.elapsed(), left));
            }
            Ok(())
        }
        (Way::Drop, Ok(guard), None) => {
            drop(guard);
            if hold.blocks > 0 {
                judge(|oracle| oracle.blocks(id));
                World::here().block(Duration::from_millis(hold.blocks));
            }
            Ok(())
        }
        (_, Err(_), _) => Ok(()),
    }
}

/// The caller runs a body, and does not wait for the release.
async fn run_in_background(id: CallId, hold: &Hold, request: LockRequest) -> Result<(), LockError> {
    let body = async |guard: &LockGuard| {
        let ends = Arc::new(AtomicU64::new(World::here().now() + nanos(guard.remaining())));
        judge(|oracle| oracle.runs(id, &ends, guard));
        World::here().note(|| format!("call {id} runs, fencing token {}", guard.fencing_token()));
        body(id, hold, guard).await;
        judge(|oracle| oracle.ends(id, Duration::ZERO));
    };
    request.release_in_background(true).run_value(body).await
}

/// The caller gives its lock away.
async fn give(id: CallId, number: u8, gift: Gift, inherits: bool, guard: LockGuard) -> Result<(), LockError> {
    let (left, sent, lasts) = (guard.remaining(), Instant::now(), Duration::from_millis(gift.lasts));
    let leaves_after = gift.leaves_after.map(Duration::from_millis);
    // A caller that leaves has no ticket, unless it has it before.
    let keeps = leaves_after.filter(|_| !inherits).unwrap_or(lasts);
    judge(|oracle| oracle.ends(id, keeps));
    let giving = guard.into_ticket(lasts);
    let outcome = match leaves_after {
        Some(after) => match timeout_at(sent + after, giving).await {
            Ok(outcome) => outcome,
            Err(_) => return Ok(()),
        },
        None => giving.await,
    };
    match outcome {
        Ok(ticket) => {
            World::here().note(|| format!("call {id} has a ticket for k{number}"));
            judge(|oracle| oracle.ends(id, lasts));
            tickets::give(number, id, ticket, sent, lasts);
            Ok(())
        }
        Err(error) => {
            if matches!(error, LockError::Lost { .. }) && !left.is_zero() {
                judge(|oracle| oracle.says_lost(id, sent.elapsed(), left));
            }
            Err(error)
        }
    }
}

async fn body(id: CallId, hold: &Hold, guard: &LockGuard) {
    let since = Instant::now();
    let until = since + Duration::from_millis(hold.hold);
    if let Some(after) = hold.downgrades {
        sleep_until(since + Duration::from_millis(after.into())).await;
        // The server may let others in from now on, and nobody who wants the lock alone.
        judge(|oracle| oracle.downgrades(id));
        let outcome = guard.downgrade().await;
        World::here().note(|| format!("call {id} is downgraded: {outcome:?}"));
    }
    for (after, ttl) in hold.extend.iter().filter(|(after, _)| *after <= hold.hold) {
        sleep_until(since + Duration::from_millis(*after)).await;
        let _ = guard.extend(Duration::from_millis(*ttl)).await;
    }
    if until > Instant::now() {
        sleep_until(until).await;
    }
}
