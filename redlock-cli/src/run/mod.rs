//! `redlocked run`: a lock around any program, or a leader that runs it.

pub(crate) mod gate;
mod group;
mod lead;
mod signals;
mod supervisor;
mod terminal;
pub(crate) mod watchdog;

use std::ffi::OsString;
use std::fmt;
use std::future::pending;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use redlocked::{LockError, LockGuard, LockManager, LockRequest, ReleaseOutcome, TickMissed};
use tokio::time::sleep;

use crate::args::{Missed, RunArgs, ServerArgs};
use crate::exit::{CONFLICT, Failure, LOST, NO_COMMAND, USAGE};
use crate::lock_text::printable;
use crate::run::gate::Gate;
use crate::run::group::Group;
use crate::run::signals::Signals;
use crate::run::supervisor::{Ending, Grace, Lease, supervise};
use crate::run::watchdog::{Held, Task, Watchdog};
use crate::stderr::tell;
use crate::waiting::{Stands, told};

/// The number that the resource compares, and the key, for the command.
const FENCING_TOKEN: &str = "REDLOCK_FENCING_TOKEN";
const KEY: &str = "REDLOCK_KEY";

pub(crate) async fn run(server: &ServerArgs, args: RunArgs) -> Result<u8, Failure> {
    let grace = Grace::new(args.ttl, args.kill_after).and_then(|grace| grace.within(args.max_hold));
    let grace = grace.map_err(|reason| Failure::new(USAGE, reason))?;
    let mut signals = Signals::listen()?;
    // On a thread of its own, the lock is renewed whatever this one does.
    let locks = server.builder()?.own_thread(true).connect_lazy()?;
    let work = async {
        if let Some(rate) = args.rate {
            run_at_a_rate(&locks, &args, rate, &mut signals).await
        } else if args.leader {
            lead::run_as_leader(server, &locks, args, grace, &mut signals).await
        } else {
            run_under_lock(server, &locks, &args, grace, &mut signals).await
        }
    };
    let code = tokio::select! {
        biased;
        code = work => code,
        never = watch_policy(&locks) => never,
    };
    // Releases what an early end has left, and says so to the queue. A server that does not answer
    // lets it expire.
    let _ = locks.shutdown(Duration::ZERO).await;
    code
}

/// Says once that the policy of the server was changed, which ends no lock. It asks the manager, not the
/// server.
async fn watch_policy<T>(locks: &LockManager) -> T {
    const PAUSE: Duration = Duration::from_secs(1);
    loop {
        sleep(PAUSE).await;
        if locks.capabilities().await.is_ok_and(|capabilities| capabilities.may_evict()) {
            tell(
                "Redis may evict locks when it is full, because its maxmemory-policy was changed: set it to noeviction",
            );
            return pending().await;
        }
    }
}

/// Waits for a start, and replaces this process with the command, which holds nothing while it runs.
/// Returns only if it gets no start, or cannot start the command.
async fn run_at_a_rate(
    locks: &LockManager,
    args: &RunArgs,
    (starts, per): (u32, Duration),
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let request = locks.lock(&args.key).label(label(args)).rate(starts, per);
    let started =
        acquire_unless_signaled(locks, args, signals, acquire_in_time(locks, args, request)).await?;
    if let Err(code) = started {
        return Ok(code);
    }
    // Reports the time of the start to the server. Without the report, the start counts for longer.
    let _ = locks.shutdown(Duration::from_secs(1)).await;
    let program = args.command.first().map(OsString::as_os_str).unwrap_or_default();
    let mut command = Command::new(program);
    command.args(args.command.iter().skip(1)).env(KEY, &args.key);
    Err(not_started(args, command.exec()))
}

async fn run_under_lock(
    server: &ServerArgs,
    locks: &LockManager,
    args: &RunArgs,
    grace: Grace,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let guard = match acquire_unless_signaled(locks, args, signals, acquire(locks, args)).await? {
        Ok(guard) => guard,
        Err(code) => return Ok(code),
    };
    // One that had to wait has a claim of a second. Its first renewal would come after a third of that.
    if guard.remaining() <= grace.start_above {
        // It is renewed again, or lost, which is seen below.
        let _ = guard.extend(args.ttl).await;
    }
    while guard.remaining() <= grace.start_above {
        if !guard.is_held() {
            let why = guard.why_lost();
            return Err(Failure::new(LOST, format!("{why}: the command was not started")));
        }
        tokio::select! {
            () = sleep(Duration::from_millis(1)) => {}
            signal = signals.end() => return Ok(exit_code_of(signal as i32)),
        }
    }
    let (watchdog, group) = start(server, locks, args, grace, guard.fencing_token()).await?;
    let ending = supervise(group, &guard, grace, signals, watchdog).await;
    release(guard, ending.map_err(|why| not_started(args, why))?).await
}

/// Returns the guard, or the exit code if a signal arrives first. Meanwhile it reports on standard error
/// who holds the lock.
async fn acquire_unless_signaled(
    locks: &LockManager,
    args: &RunArgs,
    signals: &mut Signals,
    acquire: impl Future<Output = Result<LockGuard, Failure>>,
) -> Result<Result<LockGuard, u8>, Failure> {
    let acquired = async {
        if args.quiet { acquire.await } else { told(locks, &args.key, Stands::InTheQueue, acquire).await }
    };
    tokio::select! {
        guard = acquired => match guard {
            Ok(guard) => Ok(Ok(guard)),
            Err(failure) if failure.code == CONFLICT => {
                Err(Failure::new(args.conflict_exit_code, failure.message))
            }
            Err(failure) => Err(failure),
        },
        signal = signals.end() => Ok(Err(exit_code_of(signal as i32))),
    }
}

async fn acquire(locks: &LockManager, args: &RunArgs) -> Result<LockGuard, Failure> {
    let request = locks.lock(&args.key).ttl(args.ttl).label(label(args));
    let request = if let Some(least) = args.min_hold { request.min_hold(least) } else { request };
    let missed = match args.tick_missed {
        Missed::Skip => TickMissed::Skip,
        Missed::Retry => TickMissed::Retry,
    };
    let request = match (args.tick, args.tick_at) {
        (Some(tick), _) => request.tick(tick).tick_missed(missed),
        (None, Some(time)) => request.tick_at(time).tick_missed(missed),
        (None, None) => request,
    };
    let request = if args.shared { request.shared() } else { request };
    let request = if let Some(permits) = args.permits { request.permits(permits) } else { request };
    let request = if let Some(take) = args.take { request.take(take) } else { request };
    let request = if let Some(longest) = args.max_hold { request.max_hold(longest) } else { request };
    acquire_in_time(locks, args, request).await
}

/// Acquires within the time that the options allow. Without a limit it waits through outages, but not if
/// the server refuses.
async fn acquire_in_time(
    locks: &LockManager,
    args: &RunArgs,
    request: LockRequest,
) -> Result<LockGuard, Failure> {
    if args.nonblock {
        return Ok(request.acquire().await?);
    }
    if let Some(wait) = args.wait {
        return Ok(request.wait(wait).acquire().await?);
    }
    refuse_what_no_wait_ends(locks).await?;
    Ok(request.wait_forever().acquire().await?)
}

/// Without a limit, the library waits for an operator who corrects a setting. A person at a
/// terminal is better told.
async fn refuse_what_no_wait_ends(locks: &LockManager) -> Result<(), Failure> {
    match locks.capabilities().await {
        Err(refused @ LockError::Misconfigured { .. }) => Err(refused.into()),
        _ => Ok(()),
    }
}

/// Others see which program holds the lock, without its arguments: they may be secret.
fn label(args: &RunArgs) -> String {
    let program = args.command.first().and_then(|program| Path::new(program).file_name()).unwrap_or_default();
    program.to_string_lossy().into_owned()
}

/// The watchdog first: the command does not start where that fails.
async fn start(
    server: &ServerArgs,
    locks: &LockManager,
    args: &RunArgs,
    grace: Grace,
    fence: u64,
) -> Result<(Watchdog, Group), Failure> {
    let seen = locks.inspect(&args.key).await.ok().flatten();
    // The watchdog cannot release one of several holders alone.
    let held = seen.filter(|lock| lock.holder().inside().is_none()).as_ref().map(Held::of);
    let (gate, at_gate) = Gate::new()?;
    let task = Task { kill_after: grace.kill_after, server: server.resolved()?, held };
    let watchdog = Watchdog::start(&task, gate)?;
    let group = start_command(args, fence, at_gate).map_err(|error| not_started(args, error))?;
    Ok((watchdog, group))
}

/// It waits at the gate.
fn start_command(args: &RunArgs, fence: u64, at_gate: Stdio) -> io::Result<Group> {
    let mut command = this_program(gate::COMMAND)?;
    command.args(&args.command).stdin(at_gate);
    command.env(FENCING_TOKEN, fence.to_string()).env(KEY, &args.key);
    Group::start(command)
}

/// As another process, that does another part of the work.
fn this_program(part: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(part);
    Ok(command)
}

fn not_started(args: &RunArgs, why: impl fmt::Display) -> Failure {
    let program = args.command.first().map(OsString::as_os_str).unwrap_or_default();
    Failure::new(NO_COMMAND, format!("cannot start {}: {why}", program.display()))
}

async fn release(guard: LockGuard, ending: Ending) -> Result<u8, Failure> {
    if ending.is_lost {
        // It has been told why.
        return Ok(LOST);
    }
    let key = printable(guard.key());
    if ending.code != 0 {
        guard.fail_tick();
    }
    match guard.release().await {
        Ok(ReleaseOutcome::AlreadyLost) => {
            let message = "was lost while the command ran: another caller may have been inside";
            return Err(Failure::new(LOST, format!("the lock on `{key}` {message}")));
        }
        Ok(_) => {}
        // The command has ended under the lock, which expires.
        Err(error) => tell(&format!("the lock was not released: {error}")),
    }
    Ok(ending.code)
}

/// As a shell reports a command that a signal has ended.
fn exit_code_of(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| signal.saturating_add(128))
}
