//! The loop of the engine: commands, replies and timers go to the table, and its requests to the
//! transport.
//!
//! Whichever task polls it runs it: `runner/` says where.

mod batching;
mod turn;
#[cfg(test)]
mod turns;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use tokio::task::coop::{has_budget_remaining, unconstrained};
use tokio::time::{Instant, Sleep};

use super::EngineSettings;
use super::command::{Command, Unconfirmed};
use super::lock_table::LockTable;
use super::redis::node::RedisNode;
use super::redis::node::wait_replicas::Confirmer;
use super::topology::link::{ELSEWHERE, TransportEvent};
use super::topology::{Deployment, Transport};
use super::wakers::{Arrivals, NotingWaker, WhenWoken};
use crate::base::clock::{Clock, Moment};
use crate::base::host;
use crate::base::telemetry;
use batching::{Answered, Gathering};
pub(super) use turn::PollOutcome;

/// The most commands before the transport and the timers have their turn, and the most that are
/// read at a time.
const COMMANDS: usize = 1024;
const BATCH: usize = 256;

/// The most events of the transport before commands and timers have their turn.
const EVENTS: usize = 256;

/// The most rounds before the tasks of the connections have their turn.
const ROUNDS: usize = 16;

/// After so long without a poll, the host may have been suspended. An alarm that is late by less
/// does no harm.
const SUSPENDED: Duration = Duration::from_millis(100);

pub(super) struct EventLoop {
    arrivals: Arrivals<Command>,
    /// A buffer for commands, reused.
    buffer: Vec<Command>,
    /// False once the last [`Engine`](super::handle::Engine) is gone.
    open: bool,
    table: LockTable,
    transport: Transport,
    /// Replies that are not handed out yet. What comes next from the transport waits for them.
    answered: Option<Answered>,
    confirming: Option<Confirming>,
    io_timeout: Duration,
    clock: Clock,
    /// Belongs to the runtime that polls the loop.
    alarm: Option<Pin<Box<Sleep>>>,
    when_it_rings: WhenWoken,
    alarm_at: Option<Moment>,
    /// When it last went to sleep.
    slept_at: Option<Moment>,
    /// The next deadline, as of the last poll.
    due: Option<Moment>,
    /// The runtime that polls it runs its tasks one at a time.
    beside_callers: bool,
    gathering: Gathering,
    /// For the task that polls the loop.
    wakers: Option<Wakers>,
}

/// The wakers of the loop: two, because each poll of the transport handles all that has woken the
/// loop for it before, but no command.
struct Wakers {
    commands: NotingWaker,
    /// The waker of the transport and the timers.
    events: NotingWaker,
}

impl Wakers {
    fn new(task: &Waker) -> Self {
        Self { commands: NotingWaker::new(task), events: NotingWaker::new(task) }
    }
}

/// The task that has replicas confirm granted locks.
struct Confirming {
    node: RedisNode,
    wanted: u32,
    commands: WeakUnboundedSender<Command>,
    /// To the task that asks the replicas; `None` until it runs.
    task: Option<UnboundedSender<Unconfirmed>>,
}

impl EventLoop {
    pub(super) fn new(
        deployment: Deployment,
        settings: EngineSettings,
        arrivals: UnboundedReceiver<Command>,
        commands: WeakUnboundedSender<Command>,
        clock: Clock,
    ) -> Self {
        let confirming = match (deployment.one_server(), settings.replicas) {
            (Some(node), wanted @ 1..) => {
                Some(Confirming { node: node.clone(), wanted, commands, task: None })
            }
            _ => None,
        };
        let replicas = confirming.as_ref().map_or(0, |confirming| confirming.wanted);
        let table = LockTable::new(EngineSettings { replicas, ..settings });
        let transport = Transport::new(deployment, settings, clock.now());
        Self { clock, ..Self::over(transport, table, arrivals, confirming, settings.io_timeout) }
    }

    fn over(
        transport: Transport,
        table: LockTable,
        arrivals: UnboundedReceiver<Command>,
        confirming: Option<Confirming>,
        io_timeout: Duration,
    ) -> Self {
        Self {
            arrivals: Arrivals::new(arrivals),
            buffer: Vec::new(),
            open: true,
            table,
            transport,
            answered: None,
            confirming,
            io_timeout,
            clock: Clock::System,
            alarm: None,
            when_it_rings: WhenWoken::default(),
            alarm_at: None,
            slept_at: None,
            due: None,
            beside_callers: false,
            gathering: Gathering::default(),
            wakers: None,
        }
    }

    /// Leaves the runtime that has polled it: the next one that does connects again.
    pub(super) fn leave(&mut self) {
        while self.answered.is_some() {
            self.hand_out(self.clock.now());
        }
        if self.transport.restart(self.clock.now()) {
            self.table.disconnected(self.clock.now(), ELSEWHERE.into(), &[]);
        }
        (self.alarm, self.alarm_at, self.wakers) = (None, None, None);
        if let Some(confirming) = &mut self.confirming {
            confirming.task = None;
        }
    }

    /// True while no caller waits for anything and no lock is held, as far as commands were read.
    pub(super) fn is_idle(&self) -> bool {
        self.table.is_idle() && !self.table.has_other_callers() && self.transport.is_idle()
    }

    /// True when a command was not read yet.
    pub(super) fn has_commands(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// The clock of its deadlines.
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// True while a caller waits for the server.
    pub(super) fn has_waiters(&self) -> bool {
        self.table.has_waiters()
    }

    /// True while it connects, or awaits an answer of the server.
    pub(super) fn has_requests(&self) -> bool {
        self.transport.is_busy()
    }

    /// True while a caller may wait for an outcome that comes without a deadline.
    pub(super) fn is_awaited(&self) -> bool {
        self.has_waiters()
            || self.table.has_other_callers()
            || self.transport.is_busy()
            || (self.confirming.is_some() && !self.table.is_idle())
    }

    /// The next deadline, as of the last poll.
    pub(super) fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Handles the commands that callers have sent, and writes what can be written at once, on any
    /// thread: the process may end next. The task that polls the loop has been woken for them.
    pub(super) fn flush(&mut self) {
        let kept = self.wakers.take();
        // No task polls the loop: the next one has wakers of its own, and looks at each part.
        let none = kept.is_none().then(|| Wakers::new(Waker::noop()));
        if let Some(Wakers { commands, events }) = kept.as_ref().or(none.as_ref()) {
            // The task of the caller may have spent its budget.
            let flushes = pin!(unconstrained(poll_fn(|_| {
                self.transport.set_flushing(true);
                self.arrivals.look_again();
                for _ in 0..ROUNDS {
                    let (has_more, now) = self.take_commands(&mut commands.cx());
                    self.send(&mut events.cx(), now);
                    self.send_releases(&mut events.cx(), now);
                    if !has_more {
                        break;
                    }
                }
                self.transport.write(&mut events.cx());
                self.transport.set_flushing(false);
                Poll::Ready(())
            })));
            let _ = flushes.poll(&mut Context::from_waker(Waker::noop()));
        }
        self.wakers = kept;
    }

    /// Runs rounds: in each, commands, the transport and the timers have their turn.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<PollOutcome> {
        let known = self.wakers.take().filter(|wakers| wakers.commands.is_of(cx.waker()));
        let wakers = known.unwrap_or_else(|| {
            self.beside_callers = host::runtime_has_one_thread();
            self.gathering = Gathering::here();
            Wakers::new(cx.waker())
        });
        let waits = self.gathering.is_needed()
            && self.gathering.waits(self.has_commands(), self.transport.in_flight());
        let turn = if waits { Poll::Ready(PollOutcome::AfterOthers) } else { self.rounds(&wakers) };
        if has_budget_remaining() {
            self.wakers = Some(wakers);
            return turn;
        }
        // From the end of its budget on, tokio answers "pending" to everything, and forgets whom it
        // was to wake when its `block_on` returns in this poll. With other wakers, the next poll
        // looks at each part.
        if turn.is_pending() { Poll::Ready(PollOutcome::Again) } else { turn }
    }

    fn rounds(&mut self, wakers: &Wakers) -> Poll<PollOutcome> {
        for _ in 0..ROUNDS {
            wakers.commands.poll_begins();
            wakers.events.poll_begins();
            let turn = self.round(wakers);
            let is_woken = wakers.commands.poll_ends() | wakers.events.poll_ends();
            match turn {
                Poll::Ready(Some(turn)) => return Poll::Ready(turn),
                Poll::Pending if !is_woken => return Poll::Pending,
                Poll::Ready(None) | Poll::Pending => {}
            }
        }
        Poll::Ready(PollOutcome::Again)
    }

    /// `Ready(None)` when the next round may begin at once.
    fn round(&mut self, Wakers { commands, events }: &Wakers) -> Poll<Option<PollOutcome>> {
        if self.transport.take_mended() {
            self.take_events(events, self.clock.now());
        }
        let (has_more, now) = self.take_commands(&mut commands.cx());
        self.send(&mut events.cx(), now);
        let (has_more_events, now) = self.take_events(events, now);
        self.confirm(now);
        self.table.tick(now);
        self.table.poll_closing(now, self.transport.is_idle());
        if !self.open && self.table.is_idle() && self.transport.is_idle() {
            return Poll::Ready(Some(PollOutcome::Ended));
        }
        if has_more | has_more_events {
            return Poll::Ready(Some(PollOutcome::Again));
        }
        if self.room().is_some() {
            return Poll::Ready(None);
        }
        match ready!(self.sleep(&mut events.cx(), now)) {
            Ok(()) => Poll::Ready(None),
            Err(NoClock) => Poll::Ready(Some(PollOutcome::NoClock)),
        }
    }

    /// Hands granted locks to the task that asks the replicas.
    fn confirm(&mut self, now: Moment) {
        let Some(Confirming { node, wanted, commands, task }) = &mut self.confirming else {
            return;
        };
        let is_new = task.is_none();
        let to_confirm = task.get_or_insert_with(|| {
            let (to_confirm, unconfirmed) = unbounded_channel();
            // A batch of confirmations may wait for the one before it: both must end within the
            // time limit.
            let (node, limit) = (node.clone(), self.io_timeout / 2);
            let confirmer = Confirmer { node, wanted: *wanted, limit, commands: commands.clone() };
            host::spawn(confirmer.run(unconfirmed));
            to_confirm
        });
        for unconfirmed in self.table.take_unconfirmed(now, is_new) {
            let _ = to_confirm.send(unconfirmed);
        }
    }

    /// True when there may be more, and the time.
    fn take_commands(&mut self, cx: &mut Context<'_>) -> (bool, Moment) {
        let (mut has_more, mut now) = (true, None);
        for _ in 0..COMMANDS / BATCH {
            let mut commands = std::mem::take(&mut self.buffer);
            let outcome =
                if self.open { self.arrivals.poll(cx, &mut commands, BATCH) } else { Poll::Pending };
            if !commands.is_empty() {
                let now = *now.insert(self.clock.now());
                for command in commands.drain(..) {
                    self.on_command(now, command);
                }
            }
            self.buffer = commands;
            match outcome {
                Poll::Ready(0) => self.open = false,
                Poll::Ready(_) => {}
                Poll::Pending => {
                    has_more = false;
                    break;
                }
            }
        }
        (has_more, now.unwrap_or_else(|| self.clock.now()))
    }

    /// `now`: after the callers of these requests have asked. Leases count from then.
    fn send(&mut self, cx: &mut Context<'_>, now: Moment) {
        while let Some(room) = self.room() {
            let requests = self.table.outbox().take(room, |_| true);
            self.transport.send(cx, now, requests);
        }
    }

    /// Sends releases beyond the room.
    fn send_releases(&mut self, cx: &mut Context<'_>, now: Moment) {
        while self.transport.is_connected() {
            let releases = self.table.outbox().take_releases(|_| true);
            if releases.is_empty() {
                break;
            }
            self.transport.send(cx, now, releases);
        }
    }

    /// The room for the next batch; `None` when there is none to send now.
    fn room(&mut self) -> Option<usize> {
        // Most rounds have nothing to send.
        if self.table.outbox().is_empty() {
            return None;
        }
        self.transport.room().filter(|room| self.table.outbox().has_any(*room))
    }

    /// True when there may be more, and the time.
    fn take_events(&mut self, waker: &NotingWaker, mut now: Moment) -> (bool, Moment) {
        for _ in 0..EVENTS {
            self.hand_out(now);
            if self.answered.is_some() {
                break;
            }
            // The requests that were just sent have woken the loop, too.
            waker.poll_begins();
            let Poll::Ready(event) = self.transport.poll(&mut waker.cx(), now) else {
                return (false, now);
            };
            now = self.clock.now();
            self.on_event(now, event);
        }
        (true, now)
    }

    /// Tells the callers of the next portion of replies.
    fn hand_out(&mut self, now: Moment) {
        if let Some(answered) = &mut self.answered {
            let sent = answered.sent;
            for ((id, request), reply) in answered.portion() {
                self.table.reply(now, id, sent, &request, reply);
            }
        }
        self.answered.take_if(|answered| answered.is_empty());
    }

    /// Ready at the next deadline of the table or the transport.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<Result<(), NoClock>> {
        let dues = [self.table.next_timer(), self.transport.due()];
        self.due = dues.into_iter().flatten().min();
        let Some(due) = self.due else {
            return Poll::Pending;
        };
        if due <= now {
            return Poll::Ready(Ok(()));
        }
        // Reset only when it must ring sooner: an alarm that rings too soon costs less than a reset
        // for each lock. Or when it may be late: the host was suspended, and the clock of the
        // runtime stood still.
        let was_suspended = self.slept_at.replace(now).is_some_and(|slept| now.since(slept) > SUSPENDED);
        if self.alarm_at.is_none_or(|at| due < at || at <= now) || was_suspended {
            // The clock of the runtime that polls it, if leases have another one.
            let start =
                if self.clock.runtime().is_some() { Some(Instant::now()) } else { host::running_clock() };
            let Some(start) = start else {
                return Poll::Ready(Err(NoClock));
            };
            self.alarm_at = Some(due);
            let at = start + due.since(now);
            self.when_it_rings.look_again();
            match &mut self.alarm {
                Some(alarm) => alarm.as_mut().reset(at),
                None => self.alarm = Some(Box::pin(tokio::time::sleep_until(at))),
            }
        }
        let Some(alarm) = &mut self.alarm else {
            return Poll::Pending;
        };
        ready!(self.when_it_rings.poll(cx, |cx| alarm.as_mut().poll(cx)));
        self.alarm_at = None;
        Poll::Ready(Ok(()))
    }

    fn on_command(&mut self, now: Moment, command: Command) {
        if let Command::Abandon { id } = command {
            self.table.take_back(now, id, |name, token| self.transport.take_back(id, name, token));
        }
        self.table.on_command(now, command);
    }

    fn on_event(&mut self, now: Moment, event: TransportEvent) {
        match event {
            TransportEvent::Connected { abilities, server_info } => {
                telemetry::connected(abilities);
                self.table.learn_answer_time(server_info.round_trip);
                self.table.connected(now, abilities);
            }
            TransportEvent::Abilities(abilities) => {
                telemetry::connected(abilities);
                self.table.can(now, abilities);
            }
            TransportEvent::Unreachable(trouble) => self.table.unreachable(now, trouble),
            TransportEvent::Broke { reason, refused, .. } => {
                telemetry::broke(&reason);
                self.table.disconnected(now, reason, &refused);
            }
            TransportEvent::Changed(names) => self.table.changed(now, names.as_deref()),
            TransportEvent::Returned(slots) => self.table.returned(now, &slots),
            TransportEvent::Push(push) => self.table.on_push(now, &push),
            TransportEvent::Delayed { id, reason } => self.table.delayed(now, id, reason),
            TransportEvent::Replies { sent, requests, replies } => {
                self.table.learn_answer_time(now.since(sent));
                let in_flight = self.beside_callers.then(|| self.transport.in_flight());
                self.answered = Some(Answered::new(sent, requests, replies, in_flight));
            }
        }
    }
}

/// The clock of the runtime stands still.
struct NoClock;
