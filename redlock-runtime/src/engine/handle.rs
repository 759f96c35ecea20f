//! The handle of an engine: callers send commands through it.
//!
//! A command goes into a channel without a limit, so sending never blocks. The sender then wakes
//! the runner of the loop. The outcome comes back over the channel in the command; where the loop
//! has ended, that channel is closed. A forked child has the handle but no loop: it sends nothing,
//! and what it drops stays in memory.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::EngineSettings;
use super::command::Command;
use super::event_loop::EventLoop;
use super::multi_key::MultiKey;
use super::protocol::Id;
use super::runner::{Blocked, LoopRunner, Resident};
use super::tested::Tested;
use super::topology::Deployment;
use crate::base::clock::{Clock, Moment};
use crate::base::host;
use crate::base::telemetry::Events;
use crate::base::token::TokenSource;

/// The handle of an engine. Its loop ends when the last handle is dropped and everything is
/// released.
pub(crate) struct Engine {
    commands: UnboundedSender<Command>,
    next_id: AtomicU64,
    tokens: TokenSource,
    multi_key: MultiKey,
    /// Why its locks are held by one caller at a time; `None` where several may be inside.
    only_exclusive: Option<&'static str>,
    /// Why it has no records of bodies that run once; `None` where it has.
    no_records: Option<&'static str>,
    io_timeout: Duration,
    clock: Clock,
    events: Events,
    /// The prefix of the names of its locks on the server.
    prefix: String,
    /// By default, a call does not wait for its release.
    releases_in_background: bool,
    /// `None` where the locks are not in memory.
    tested: Option<Tested>,
    /// `None` for an engine with a thread of its own.
    runner: Option<Arc<LoopRunner>>,
    /// `None` for any other.
    resident: Option<Arc<Resident>>,
    /// Its locks outlive this process, so what is released is written before the process ends.
    outlives_process: bool,
    /// The process of the loop: a forked child has none.
    process: AtomicU32,
}

impl Engine {
    /// Starts the loop, which connects.
    pub(crate) fn start(
        mut deployment: Deployment,
        settings: EngineSettings,
        events: Events,
    ) -> io::Result<Self> {
        let (commands, arrivals) = unbounded_channel();
        let multi_key = deployment.multi_key();
        let own_thread = settings.own_thread;
        let clock = if own_thread == Some(true) { Clock::System } else { deployment.choose_clock() };
        let tested = Tested::of(&deployment);
        let outlives_process = !deployment.has_memory();
        // Weak: the loop ends with the last manager and guard.
        let event_loop = EventLoop::new(deployment, settings, arrivals, commands.downgrade(), clock.clone());
        let (runner, resident) = if own_thread == Some(true) {
            (None, Some(Resident::start(event_loop)?))
        } else {
            (Some(LoopRunner::new(event_loop, own_thread.is_some())?), None)
        };
        let mut engine = Self::new(commands, multi_key, settings.io_timeout, clock, tested, runner);
        (engine.resident, engine.outlives_process) = (resident, outlives_process);
        engine.events = events;
        if settings.cohort > 0 {
            engine.only_exclusive = Some(NOT_IN_COHORTS);
            engine.no_records = Some(NOT_ONCE_IN_COHORTS);
        }
        engine.runner.iter().for_each(LoopRunner::start);
        Ok(engine)
    }

    fn new(
        commands: UnboundedSender<Command>,
        multi_key: MultiKey,
        io_timeout: Duration,
        clock: Clock,
        tested: Option<Tested>,
        runner: Option<Arc<LoopRunner>>,
    ) -> Self {
        Self {
            commands,
            next_id: AtomicU64::new(1),
            tokens: TokenSource::default(),
            multi_key,
            only_exclusive: multi_key.is_by_votes().then_some(NOT_BY_VOTES),
            no_records: multi_key.is_by_votes().then_some(NOT_ONCE_BY_VOTES),
            io_timeout,
            clock,
            events: Events::default(),
            prefix: String::new(),
            releases_in_background: false,
            tested,
            runner,
            resident: None,
            outlives_process: false,
            process: AtomicU32::new(host::process_id()),
        }
    }

    /// With what the names of its locks begin with on the server.
    pub(crate) fn with_prefix(mut self, prefix: String) -> Self {
        self.prefix = prefix;
        self
    }

    /// With what a call does that does not say whether it waits for its release.
    pub(crate) fn releasing_in_background(mut self, releases_in_background: bool) -> Self {
        self.releases_in_background = releases_in_background;
        self
    }

    /// By default, a call does not wait for its release.
    pub(crate) fn releases_in_background(&self) -> bool {
        self.releases_in_background
    }

    /// Returns what the names of its locks begin with on the server.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// False in a forked child, where no loop reads commands.
    pub(crate) fn is_here(&self) -> bool {
        self.is_in(host::process_id())
    }

    fn is_in(&self, process: u32) -> bool {
        self.process.load(Ordering::Relaxed) == process
    }

    /// An engine without a loop: the test reads its commands.
    #[cfg(test)]
    pub(crate) fn stuck() -> (Self, tokio::sync::mpsc::UnboundedReceiver<Command>) {
        let (commands, waiting) = unbounded_channel();
        let engine = Self::new(commands, MultiKey::Any, Duration::from_millis(20), Clock::System, None, None);
        (engine, waiting)
    }

    /// From now on as in a forked child.
    #[cfg(test)]
    pub(crate) fn fork(&self) {
        self.process.fetch_xor(1, Ordering::Relaxed);
    }

    pub(crate) fn new_id(&self) -> Id {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// For its callers.
    pub(crate) fn tokens(&self) -> &TokenSource {
        &self.tokens
    }

    /// The time limit of a reply.
    pub(crate) fn io_timeout(&self) -> Duration {
        self.io_timeout
    }

    /// The clock of its leases.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The callback of its manager.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// For `testing()`.
    pub(crate) fn tested(&self) -> Option<&Tested> {
        self.tested.as_ref()
    }

    /// True in a test that has paused the clock of this tokio runtime, if its locks are in memory
    /// and do not obey it.
    pub(crate) fn is_beside_a_paused_clock(&self) -> bool {
        self.runner.is_some() && self.tested.as_ref().is_some_and(Tested::is_beside_a_paused_clock)
    }

    /// Returns which keys may be in one call.
    pub(crate) fn multi_key(&self) -> MultiKey {
        self.multi_key
    }

    /// Why no request may be shared, or for one of several permits.
    pub(crate) fn only_exclusive(&self) -> Option<&'static str> {
        self.only_exclusive
    }

    /// Why no request may be for a start under a rate.
    pub(crate) fn no_rates(&self) -> Option<&'static str> {
        let reason = if self.multi_key.is_by_votes() { NO_RATES_BY_VOTES } else { NO_RATES_IN_COHORTS };
        self.only_exclusive.map(|_| reason)
    }

    /// Why no lock has a central limit.
    pub(crate) fn no_central_limits(&self) -> Option<&'static str> {
        self.multi_key.is_by_votes().then_some(NO_LIMITS_BY_VOTES)
    }

    /// Why no request may be for a tick.
    pub(crate) fn no_ticks(&self) -> Option<&'static str> {
        let reason = if self.multi_key.is_by_votes() { NO_TICKS_BY_VOTES } else { NO_TICKS_IN_COHORTS };
        self.only_exclusive.map(|_| reason)
    }

    /// Why no body runs once.
    pub(crate) fn no_records(&self) -> Option<&'static str> {
        self.no_records
    }

    /// Completes after so long, on the clock of its leases; at once where no loop runs.
    pub(crate) async fn sleep(&self, lasts: Duration) {
        let (caller, over) = oneshot::channel();
        self.send(Command::Sleep { id: self.new_id(), until: self.now().after(lasts), caller });
        let _ = over.await;
    }

    /// Never blocks. An engine that has ended, or is in another process, drops the command; its
    /// caller sees that the sender of the outcome is dropped.
    pub(crate) fn send(&self, command: Command) {
        self.send_from(host::process_id(), command);
    }

    /// As [`send`](Self::send), for a caller that knows its process id: reading it is a system
    /// call.
    pub(crate) fn send_from(&self, process: u32, command: Command) {
        if self.is_in(process) {
            if let Some(tested) = &self.tested {
                tested.on_sent(&command);
            }
            let _ = self.commands.send(command);
            self.runner.iter().for_each(LoopRunner::on_sent);
        }
    }

    /// Writes what this caller has sent before it returns, if there is a connection: the process may
    /// end next. Waits for nothing but a poll of the loop.
    pub(crate) fn flush(&self) {
        if self.outlives_process && self.is_here() {
            self.runner.iter().for_each(|runner| runner.flush());
            self.resident.iter().for_each(|resident| resident.flush());
        }
    }

    /// Blocks this thread, which is in no runtime, until `future` is ready, and polls the loop
    /// meanwhile where it can.
    pub(crate) fn poll_until<F: Future>(
        &self,
        limit: Option<Moment>,
        future: Pin<&mut F>,
    ) -> Blocked<F::Output> {
        match &self.runner {
            // The loop's own runtime has the system's clock.
            Some(runner) if self.clock.of_runtime().is_none() && self.is_here() => {
                runner.poll_until(limit, future)
            }
            _ => Blocked::Elsewhere,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let (nowhere, _) = unbounded_channel();
        let commands = std::mem::replace(&mut self.commands, nowhere);
        if self.is_here() {
            drop(commands);
            self.runner.iter().for_each(LoopRunner::on_closed);
        } else {
            // A thread of the parent may have been using them at the fork: leak them.
            std::mem::forget((commands, self.runner.take(), self.resident.take()));
        }
    }
}

/// Three holders can have a majority each where two are allowed.
const NOT_BY_VOTES: &str = "over a quorum of independent servers nobody counts who is inside, so a lock is held by one caller \
                            alone: leave out `shared` or `permits`, or use one server, Sentinel or a Cluster";

const NOT_IN_COHORTS: &str = "a manager with a `cohort` passes each lock on from one caller to the next: leave out `shared` or \
                              `permits`, or connect a manager without `cohort` for these requests";

const NO_LIMITS_BY_VOTES: &str = "over a quorum of independent servers nobody counts who is inside, so no lock has permits: set their \
                                  number on one server, Sentinel or a Cluster";

const NO_RATES_BY_VOTES: &str = "over a quorum of independent servers nobody counts the starts of a `rate`: use one server, Sentinel or \
                                 a Cluster";

const NO_RATES_IN_COHORTS: &str = "a manager with a `cohort` passes each lock on without the server, which counts the starts of a `rate`: \
                                   connect a manager without `cohort` for these requests";

/// A majority for the lock says nothing of the records of ticks.
const NO_TICKS_BY_VOTES: &str = "over a quorum of independent servers nobody keeps a record of ticks: leave out the tick, or use one \
                                 server, Sentinel or a Cluster";

const NO_TICKS_IN_COHORTS: &str = "a manager with a `cohort` passes each lock on without the server, which keeps the record of ticks: \
                                   leave out the tick, or connect a manager without `cohort` for it";

const NOT_ONCE_BY_VOTES: &str = "over a quorum of independent servers no one server has the result of a body that runs once: use \
                                 one server, Sentinel or a Cluster";

const NOT_ONCE_IN_COHORTS: &str = "a manager with a `cohort` passes each lock on from one caller to the next, which would not see \
                                   that the body has run: connect a manager without `cohort` for these requests";

/// The error when no thread answers. Only a fork is known to cause it.
pub(crate) const ENGINE_GONE: &str = "this lock manager does not run in this process, which was forked after it was started: connect a new one";
