//! `redlocked run --leader`: the command runs while this process leads.

use std::fmt;
use std::future::pending;
use std::time::Duration;

use redlocked::LockManager;
use redlocked::election::{LeadError, Term};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep;

use super::signals::Signals;
use super::supervisor::{Ending, Grace, supervise};
use super::{exit_code_of, label, not_started, refuse_what_no_wait_ends, start};
use crate::args::{RunArgs, ServerArgs};
use crate::exit::{Failure, OS};
use crate::stderr::tell;

/// What this process does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Waits,
    Runs,
    /// The command was told to end, and has, with this code.
    HasEnded(u8),
}

/// The command has ended by itself, and not well: another candidate may do better.
struct HasFailed(u8);

impl fmt::Display for HasFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command ended with {}", self.0)
    }
}

/// Waits to lead, runs the command while it leads, and repeats this until the command exits with
/// 0, or this process receives a signal to end.
pub(super) async fn run_as_leader(
    server: &ServerArgs,
    locks: &LockManager,
    args: RunArgs,
    grace: Grace,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    refuse_what_no_wait_ends(locks).await?;
    let election = locks.election(&args.key).ttl(args.ttl).label(label(&args));
    let election = match &args.announce {
        Some(text) => election.announce(text.as_str()),
        None => election,
    };
    let (doing, mut done) = watch::channel(Doing::Waits);
    let candidate = Candidate { server: server.resolved()?, locks: locks.clone(), args, grace, doing };
    let here = Handle::current();
    // The manager drops an async body, but only notifies a sync one. So a sync body can ask its
    // command to end, and wait until it has.
    let mut leads = tokio::task::spawn_blocking(move || {
        election.lead_blocking(|term| here.block_on(candidate.run(term)))
    });
    let mut told = None;
    let end = async {
        told = Some(signals.end().await);
        // The supervisor signals the command, which may take its time.
        let _ = done.wait_for(|doing| *doing != Doing::Runs).await;
        let _ = locks.shutdown(Duration::ZERO).await;
        pending().await
    };
    let outcome = tokio::select! {
        biased;
        outcome = &mut leads => outcome,
        never = end => never,
    };
    let last = *done.borrow();
    match (outcome.map_err(|error| Failure::new(OS, error.to_string()))?, told, last) {
        (Ok(code), ..) => code,
        (Err(_), Some(_), Doing::HasEnded(code)) | (Err(LeadError::Body(HasFailed(code))), ..) => Ok(code),
        (Err(_), Some(signal), _) => Ok(exit_code_of(signal as i32)),
        (Err(LeadError::Lock(error)), None, _) => Err(error.into()),
    }
}

struct Candidate {
    server: ServerArgs,
    locks: LockManager,
    args: RunArgs,
    grace: Grace,
    doing: watch::Sender<Doing>,
}

impl Candidate {
    /// One term. An error of the command ends the term, and one of this process ends all.
    async fn run(&self, term: &Term) -> Result<Result<u8, Failure>, HasFailed> {
        while term.remaining() <= self.grace.start_above {
            if !term.is_leading() {
                return Ok(Ok(0));
            }
            sleep(Duration::from_millis(1)).await;
        }
        self.doing.send_replace(Doing::Runs);
        let ending = match self.run_command(term).await {
            Ok(ending) => ending,
            Err(failure) => {
                self.doing.send_replace(Doing::Waits);
                return Ok(Err(failure));
            }
        };
        self.doing.send_replace(if ending.is_told { Doing::HasEnded(ending.code) } else { Doing::Waits });
        if ending.is_lost || !term.is_leading() {
            // A late renewal may have saved the lock, but not the command, which the watchdog ends
            // where this process is frozen.
            term.resign();
        } else if ending.code != 0 && !ending.is_told {
            let failed = HasFailed(ending.code);
            tell(&format!("{failed}: waiting to lead again"));
            return Err(failed);
        }
        Ok(Ok(ending.code))
    }

    async fn run_command(&self, term: &Term) -> Result<Ending, Failure> {
        // None that came while this process stood by is for the command.
        let mut signals = Signals::listen()?;
        let (watchdog, group) =
            start(&self.server, &self.locks, &self.args, self.grace, term.fencing_token()).await?;
        let lease = (term, self.args.key.as_str());
        let ending = supervise(group, &lease, self.grace, &mut signals, watchdog).await;
        ending.map_err(|why| not_started(&self.args, why))
    }
}
