//! The loop of the engine's thread: commands, replies and timers go to the table, and its requests to the transport.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep};

use super::command::Command;
use super::handle::Engine;
use super::protocol::{Disconnected, Unconfirmed};
use super::redis::wait_replicas::Confirmer;
use super::settings::{EngineSettings, TableSettings};
use super::table::LockTable;
use super::table::closing::Closing;
use super::transport::link::TransportEvent;
use super::transport::{Deployment, Transport};
use crate::capabilities::Abilities;
use crate::clock::Moment;
use crate::telemetry;

impl Engine {
    /// Starts the thread, which connects.
    pub(crate) fn start(deployment: Deployment, settings: EngineSettings) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (commands, inbox) = unbounded_channel();
        let multi_key = deployment.multi_key();
        // Weak: the engine ends with the last manager and guard.
        let own_commands = commands.downgrade();
        let (hand_over, handed_over) = mpsc::channel::<Runtime>();
        let thread = std::thread::Builder::new().name("redlocked".to_owned()).spawn(move || {
            let Ok(runtime) = handed_over.recv() else {
                return;
            };
            runtime.block_on(async {
                let EngineSettings { io_timeout, cohort, .. } = settings;
                let (to_confirm, unconfirmed) = unbounded_channel();
                let mut replicas = 0;
                if let (Some(node), 1..) = (deployment.one_server(), settings.replicas) {
                    replicas = settings.replicas;
                    // A batch of confirmations may wait for the one before it: both must end within the time limit.
                    let (node, limit) = (node.clone(), io_timeout / 2);
                    let confirmer = Confirmer { node, wanted: replicas, limit, commands: own_commands };
                    tokio::spawn(confirmer.run(unconfirmed));
                }
                let table = LockTable::new(TableSettings { io_timeout, replicas, cohort });
                let transport = Transport::new(deployment, settings);
                let driver = Driver::new(inbox, table, transport, to_confirm, io_timeout);
                // A task: the runtime polls a woken task before it looks for more I/O events.
                let _ = tokio::spawn(driver.run()).await;
            });
        });
        if let Err(error) = thread {
            // Dropping a runtime inside the caller's runtime would panic.
            runtime.shutdown_background();
            return Err(error);
        }
        let _ = hand_over.send(runtime);
        Ok(Self::new(commands, multi_key, settings.io_timeout))
    }
}

/// The most commands before the transport and the timers have their turn, and the most that are read at a time.
const COMMANDS: usize = 1024;
const BATCH: usize = 256;

/// The most events of the transport before commands and timers have their turn.
const EVENTS: usize = 256;

/// The most rounds before the tasks of the connections have their turn.
const ROUNDS: usize = 16;

struct Driver {
    inbox: UnboundedReceiver<Command>,
    /// A buffer for commands, reused.
    buffer: Vec<Command>,
    /// False once the last [`Engine`] is gone.
    open: bool,
    table: LockTable,
    transport: Transport,
    /// To the task that asks the replicas.
    to_confirm: UnboundedSender<Unconfirmed>,
    /// The callers of connect.
    connecting: Vec<oneshot::Sender<Result<Abilities, Disconnected>>>,
    /// The callers of shutdown.
    closing: Vec<Closing>,
    io_timeout: Duration,
    alarm: Pin<Box<Sleep>>,
    alarm_at: Option<Moment>,
}

impl Driver {
    fn new(
        inbox: UnboundedReceiver<Command>,
        table: LockTable,
        transport: Transport,
        to_confirm: UnboundedSender<Unconfirmed>,
        io_timeout: Duration,
    ) -> Self {
        Self {
            inbox,
            buffer: Vec::new(),
            open: true,
            table,
            transport,
            to_confirm,
            connecting: Vec::new(),
            closing: Vec::new(),
            io_timeout,
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
            alarm_at: None,
        }
    }

    async fn run(mut self) {
        while poll_fn(|cx| self.poll(cx)).await {
            // The tasks of the connections run, and the runtime looks for I/O events.
            yield_now().await;
        }
    }

    /// Runs rounds: in each, commands, the transport and the timers have their turn. `Ready(true)` when there may be more to
    /// do at once, `Ready(false)` at the end of the engine.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        for _ in 0..ROUNDS {
            let has_more = self.take_commands(cx);
            self.send(cx);
            let has_more = self.take_events(cx) | has_more;
            for unconfirmed in self.table.take_unconfirmed() {
                let _ = self.to_confirm.send(unconfirmed);
            }
            let now = Moment::now();
            self.table.tick(now);
            self.poll_closing(now);
            if !self.open && self.table.is_idle() && self.transport.is_idle() {
                return Poll::Ready(false);
            }
            if has_more {
                return Poll::Ready(true);
            }
            let can_send = self.transport.room().is_some_and(|room| self.table.has_requests(room));
            if !can_send && self.sleep(cx, now).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(true)
    }

    /// True when there may be more.
    fn take_commands(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..COMMANDS / BATCH {
            let mut commands = std::mem::take(&mut self.buffer);
            let outcome =
                if self.open { self.inbox.poll_recv_many(cx, &mut commands, BATCH) } else { Poll::Pending };
            let now = Moment::now();
            for command in commands.drain(..) {
                self.on_command(now, command);
            }
            self.buffer = commands;
            match outcome {
                Poll::Ready(0) => self.open = false,
                Poll::Ready(_) => {}
                Poll::Pending => return false,
            }
        }
        true
    }

    fn send(&mut self, cx: &mut Context<'_>) {
        while let Some(room) = self.transport.room()
            && self.table.has_requests(room)
        {
            let requests = self.table.take_requests(room);
            self.transport.send(cx, Moment::now(), requests);
        }
    }

    /// True when there may be more.
    fn take_events(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..EVENTS {
            let Poll::Ready(event) = self.transport.poll(cx, Moment::now()) else {
                return false;
            };
            self.on_event(Moment::now(), event);
        }
        true
    }

    /// Ready at the next deadline of the table, the transport or a shutdown.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<()> {
        let shutdown = self.closing.iter().map(Closing::due).min();
        let dues = [self.table.next_timer(), self.transport.due(), shutdown];
        let Some(due) = dues.into_iter().flatten().min() else {
            return Poll::Pending;
        };
        if due <= now {
            return Poll::Ready(());
        }
        // Reset only when it must ring sooner. An alarm that rings too soon costs less than a reset for each lock.
        if self.alarm_at.is_none_or(|at| due < at) {
            self.alarm_at = Some(due);
            self.alarm.as_mut().reset(Instant::now() + due.since(now));
        }
        self.alarm.as_mut().poll(cx).map(|()| self.alarm_at = None)
    }

    fn poll_closing(&mut self, now: Moment) {
        let (table, transport) = (&mut self.table, &self.transport);
        let is_idle = |table: &LockTable| table.is_idle() && transport.is_idle();
        let closing = std::mem::take(&mut self.closing).into_iter();
        self.closing = closing.filter_map(|closing| closing.look(now, table, is_idle)).collect();
    }

    fn on_command(&mut self, now: Moment, command: Command) {
        match command {
            Command::Acquire { id, ask, token } => self.table.acquire(now, id, ask, token),
            Command::AcquireAll { asks } => self.table.acquire_all(now, asks),
            Command::Abandon { id } => {
                if let Some((name, token)) = self.table.asked(id)
                    && self.transport.take_back(id, name, token)
                {
                    self.table.taken_back(id);
                }
                self.table.abandon(now, id);
            }
            Command::Extend { id, extension } => self.table.extend(now, id, extension),
            Command::Release { id, response } => self.table.release(now, id, response),
            Command::Confirmed { id, token, confirmation } => {
                self.table.confirmed(now, id, &token, confirmation);
            }
            Command::Admin { id, call } => self.table.call(now, id, call),
            Command::Shutdown { until, caller } => {
                self.table.close(now);
                self.closing.push(Closing::new(until, self.io_timeout, caller));
            }
            Command::Connected { caller } => match self.table.connection() {
                Some(outcome) => drop(caller.send(outcome)),
                None => self.connecting.push(caller),
            },
        }
    }

    fn on_event(&mut self, now: Moment, event: TransportEvent) {
        match event {
            TransportEvent::Connected { abilities, .. } => {
                telemetry::connected(abilities);
                self.table.connected(now, abilities);
                for caller in self.connecting.drain(..) {
                    drop(caller.send(Ok(abilities)));
                }
            }
            TransportEvent::Abilities(abilities) => {
                telemetry::connected(abilities);
                self.table.can(now, abilities);
            }
            TransportEvent::Unreachable(trouble) => {
                if self.table.is_new_trouble(&trouble) {
                    telemetry::unreachable(&trouble.reason);
                }
                for caller in self.connecting.drain(..) {
                    drop(caller.send(Err(trouble.clone())));
                }
                self.table.unreachable(now, trouble);
            }
            TransportEvent::Broke { reason, .. } => {
                telemetry::broke(&reason);
                self.table.disconnected(reason);
            }
            TransportEvent::Changed(names) => self.table.changed(now, names.as_deref()),
            TransportEvent::Returned(slots) => self.table.returned(now, &slots),
            TransportEvent::Push(push) => self.table.on_push(now, &push),
            TransportEvent::Replies { sent, replies } => {
                for (id, request, reply) in replies {
                    self.table.reply(now, id, sent, &request, reply);
                }
            }
        }
    }
}

#[cfg(test)]
mod turns;
