//! The engine: one thread per manager that owns the connection, every timer and every renewal.
//!
//! Callers on any executor, callers without one and `Drop` all send it a command; it answers through the
//! channel that came with the command. So no caller needs a runtime, and a starved or dropped runtime of the
//! user's cannot stop a renewal or a release. Commands of one caller are handled in the order in which they
//! were sent, and requests leave on one connection in that order.

mod address;
mod answers;
mod chain;
mod closing;
mod cluster;
mod cohort;
mod denied;
mod errands;
mod fence_floor;
mod fifo;
mod held;
mod in_turn;
mod line;
mod link;
mod names;
mod node;
mod opening;
mod outbox;
mod previous;
mod probe;
mod protocol;
mod queue;
mod quorum;
mod releasing;
mod renewals;
mod replicas;
mod replies;
#[cfg(test)]
mod scenarios;
mod scripts;
mod sentinel;
mod slots;
mod table;
mod timers;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
#[cfg(test)]
mod turns;
mod verdict;
mod voters;
mod waiting;
mod window;
mod wire;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep};

pub(crate) use address::{parse, without_credentials};
pub(crate) use answers::Pushed;
pub(crate) use chain::{LONGEST, Together};
pub(crate) use closing::Unfinished;
pub(crate) use errands::{Errand, Question};
pub(crate) use held::Extension;
pub(crate) use line::Deployment;
pub(crate) use names::is_side_name;
pub(crate) use node::NodeSettings;
pub(crate) use protocol::{
    Abilities, Action, CLAIM, Claimant, Disconnected, Found, Mode, Notice, Place, Reply, Request, ServerTime,
    Standing, What,
};
pub(crate) use releasing::Response;
use replicas::{Confirmation, Confirmer};
pub(crate) use tls::TlsSettings;
pub(crate) use waiting::Ask;

use crate::clock::Moment;
use crate::report;
use crate::token::Token;
use closing::Closing;
use line::Line;
use link::News;
use table::Table;

/// How an engine does its work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineSettings {
    /// How long a node may take to answer.
    pub(crate) io_timeout: Duration,
    /// How many replicas have to have a lock before its caller has it.
    pub(crate) replicas: u32,
    /// In a quorum, the longest that a node's answer is waited for.
    pub(crate) node_timeout: Duration,
    /// In a quorum, the longest ttl that anybody uses with its nodes, as far as it is known.
    pub(crate) longest_ttl: Duration,
    /// How many of this process follow on one of its own, before others have their turn.
    pub(crate) cohort: u32,
}

/// Names one attempt within its engine.
pub(crate) type Id = u64;

pub(crate) enum Command {
    /// Take a lock. Registered first, sent then; the outcome arrives as a message.
    Acquire {
        id: Id,
        ask: Ask,
        token: Token,
    },
    /// Take several, one after the other; all but the first one follow the one before.
    AcquireAll {
        asks: Vec<(Id, Ask, Token)>,
    },
    /// The caller stopped waiting.
    Abandon {
        id: Id,
    },
    Extend {
        id: Id,
        extension: Extension,
    },
    Release {
        id: Id,
        response: Option<Response>,
    },
    /// Tell when there is a connection, or why there is none.
    Connected {
        caller: oneshot::Sender<Result<Abilities, Disconnected>>,
    },
    /// What the replicas say of a lock that has been granted.
    Confirmed {
        id: Id,
        token: Token,
        confirmation: Confirmation,
    },
    /// Look at locks, or take one away.
    Errand {
        id: Id,
        errand: Errand,
    },
    /// Begin nothing new; tell when everything is released. What is held at that time is given up.
    Shutdown {
        until: Moment,
        caller: oneshot::Sender<Result<(), Unfinished>>,
    },
}

/// The way to the engine. The thread ends when the last of these is gone and everything is released.
pub(crate) struct Engine {
    commands: UnboundedSender<Command>,
    next_id: AtomicU64,
    together: Together,
    io_timeout: Duration,
    /// In which process the thread is: a forked child has none.
    process: AtomicU32,
}

impl Engine {
    /// Starts the thread; it connects by itself.
    pub(crate) fn start(deployment: Deployment, settings: EngineSettings) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (commands, inbox) = unbounded_channel();
        let together = deployment.together();
        // Weak: the engine ends with the last manager and guard.
        let own_commands = commands.downgrade();
        let (hand_over, handed_over) = mpsc::channel::<Runtime>();
        let thread = std::thread::Builder::new().name("redlocked".to_owned()).spawn(move || {
            let Ok(runtime) = handed_over.recv() else {
                return;
            };
            runtime.block_on(async {
                let EngineSettings { io_timeout, replicas, cohort, .. } = settings;
                let mut table = Table::new(io_timeout, cohort);
                if let (Some(node), 1..) = (deployment.one_server(), replicas) {
                    let (unconfirmed, to_confirm) = unbounded_channel();
                    table.replicas = Some((replicas, unconfirmed));
                    // One batch may have to wait for the one before.
                    let (node, limit) = (node.clone(), io_timeout / 2);
                    let confirmer = Confirmer { node, wanted: replicas, limit, commands: own_commands };
                    tokio::spawn(confirmer.run(to_confirm));
                }
                let driver = Driver::new(inbox, table, Line::new(deployment, settings), io_timeout);
                // As a task: what wakes it puts it into the queue of the runtime, which then need not look for
                // more events first.
                let _ = tokio::spawn(driver.run()).await;
            });
        });
        if let Err(error) = thread {
            // Inside the caller's runtime, dropping one would panic.
            runtime.shutdown_background();
            return Err(error);
        }
        let _ = hand_over.send(runtime);
        Ok(Self {
            commands,
            next_id: AtomicU64::new(1),
            together,
            io_timeout: settings.io_timeout,
            process: AtomicU32::new(std::process::id()),
        })
    }

    /// False in a forked child, in which no thread listens to commands.
    pub(crate) fn is_here(&self) -> bool {
        self.process.load(Ordering::Relaxed) == std::process::id()
    }

    /// An engine whose thread comes to nothing: commands wait where this reads them.
    #[cfg(test)]
    pub(crate) fn stuck() -> (Self, UnboundedReceiver<Command>) {
        let (commands, waiting) = unbounded_channel();
        let engine = Self {
            commands,
            next_id: AtomicU64::new(1),
            together: Together::Any,
            io_timeout: Duration::from_millis(20),
            process: AtomicU32::new(std::process::id()),
        };
        (engine, waiting)
    }

    /// As if this were another process from now on.
    #[cfg(test)]
    pub(crate) fn fork(&self) {
        self.process.fetch_xor(1, Ordering::Relaxed);
    }

    pub(crate) fn new_id(&self) -> Id {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// How long the server may take to answer.
    pub(crate) fn io_timeout(&self) -> Duration {
        self.io_timeout
    }

    /// Which locks may be asked for in one call.
    pub(crate) fn together(&self) -> Together {
        self.together
    }

    /// Never blocks. A command to an engine that has died, or is in another process, is dropped, and with it the sender of
    /// the answer, which is how its caller hears of it.
    pub(crate) fn send(&self, command: Command) {
        if self.is_here() {
            let _ = self.commands.send(command);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.is_here() {
            // Nothing is touched that the thread may have been in the middle of when its process forked.
            let (nowhere, _) = unbounded_channel();
            std::mem::forget(std::mem::replace(&mut self.commands, nowhere));
        }
    }
}

/// Commands that are taken in before the line and the timers have their turn, at most, and so many at a time.
const COMMANDS: usize = 1024;
const BATCH: usize = 256;

/// What the line tells before commands and timers have their turn, at most.
const NEWS: usize = 256;

/// Rounds before the connections have theirs, at most.
const ROUNDS: usize = 16;

struct Driver {
    inbox: UnboundedReceiver<Command>,
    /// Room for what comes in, kept between rounds.
    room: Vec<Command>,
    /// False once the last [`Engine`] is gone.
    open: bool,
    table: Table,
    line: Line,
    /// Who waits for the outcome of connecting.
    connecting: Vec<oneshot::Sender<Result<Abilities, Disconnected>>>,
    /// Who waits for the end.
    closing: Vec<Closing>,
    io_timeout: Duration,
    alarm: Pin<Box<Sleep>>,
    alarm_at: Option<Moment>,
}

impl Driver {
    fn new(inbox: UnboundedReceiver<Command>, table: Table, line: Line, io_timeout: Duration) -> Self {
        Self {
            inbox,
            room: Vec::new(),
            open: true,
            table,
            line,
            connecting: Vec::new(),
            closing: Vec::new(),
            io_timeout,
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
            alarm_at: None,
        }
    }

    async fn run(mut self) {
        while poll_fn(|cx| self.poll(cx)).await {
            // Whoever reads and writes the connections has a turn, and the system is asked what has arrived.
            yield_now().await;
        }
    }

    /// Rounds, in each of which commands, the line and the timers have their turns. Ready when there may be more to do at
    /// once; then false when nothing ever will be.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        for _ in 0..ROUNDS {
            let is_left = self.take_commands(cx);
            self.send(cx);
            let is_left = self.listen(cx) | is_left;
            let now = Moment::now();
            self.table.tick(now);
            self.look_at_closing(now);
            if !self.open && self.table.is_idle() && self.line.is_idle() {
                return Poll::Ready(false);
            }
            if is_left {
                return Poll::Ready(true);
            }
            let can_send = self.line.room().is_some_and(|room| self.table.outbox.has_any(room));
            if !can_send && self.sleep(cx, now).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(true)
    }

    /// True when there may be more.
    fn take_commands(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..COMMANDS / BATCH {
            let mut commands = std::mem::take(&mut self.room);
            let outcome =
                if self.open { self.inbox.poll_recv_many(cx, &mut commands, BATCH) } else { Poll::Pending };
            let now = Moment::now();
            for command in commands.drain(..) {
                self.command(now, command);
            }
            self.room = commands;
            match outcome {
                Poll::Ready(0) => self.open = false,
                Poll::Ready(_) => {}
                Poll::Pending => return false,
            }
        }
        true
    }

    fn send(&mut self, cx: &mut Context<'_>) {
        while let Some(room) = self.line.room()
            && self.table.outbox.has_any(room)
        {
            let requests = self.table.outbox.take(room, |_| true);
            self.line.send(cx, Moment::now(), requests);
        }
    }

    /// True when there may be more.
    fn listen(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..NEWS {
            let Poll::Ready(news) = self.line.poll(cx, Moment::now()) else {
                return false;
            };
            self.news(Moment::now(), news);
        }
        true
    }

    /// Until there is something to do at a certain time, at the latest.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<()> {
        let patience = self.closing.iter().map(Closing::due).min();
        let dues = [self.table.next_timer(), self.line.due(), patience];
        let Some(due) = dues.into_iter().flatten().min() else {
            return Poll::Pending;
        };
        if due <= now {
            return Poll::Ready(());
        }
        // Only when it must ring sooner: setting it anew each time keeps it from ever ringing, and one that rings too
        // soon costs less than one that is set for each lock.
        if self.alarm_at.is_none_or(|at| due < at) {
            self.alarm_at = Some(due);
            self.alarm.as_mut().reset(Instant::now() + due.since(now));
        }
        self.alarm.as_mut().poll(cx).map(|()| self.alarm_at = None)
    }

    fn look_at_closing(&mut self, now: Moment) {
        let (table, line) = (&mut self.table, &self.line);
        let is_idle = |table: &Table| table.is_idle() && line.is_idle();
        let closing = std::mem::take(&mut self.closing).into_iter();
        self.closing = closing.filter_map(|closing| closing.look(now, table, is_idle)).collect();
    }

    fn command(&mut self, now: Moment, command: Command) {
        match command {
            Command::Acquire { id, ask, token } => self.table.acquire(now, id, ask, token),
            Command::AcquireAll { asks } => self.table.acquire_all(now, asks),
            Command::Abandon { id } => {
                if let Some(waiting) = self.table.asking(id)
                    && self.line.take_back(id, &waiting.ask.name, &waiting.token)
                {
                    waiting.taken_back();
                }
                self.table.abandon(now, id);
            }
            Command::Extend { id, extension } => self.table.extend(now, id, extension),
            Command::Release { id, response } => self.table.release(now, id, response),
            Command::Confirmed { id, token, confirmation } => {
                self.table.confirmed(now, id, &token, confirmation);
            }
            Command::Errand { id, errand } => self.table.errand(now, id, errand),
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

    fn news(&mut self, now: Moment, news: News) {
        match news {
            News::Connected { abilities, .. } => {
                report::connected(abilities);
                self.table.connected(now, abilities);
                for caller in self.connecting.drain(..) {
                    drop(caller.send(Ok(abilities)));
                }
            }
            News::Abilities(abilities) => {
                report::connected(abilities);
                self.table.can(now, abilities);
            }
            News::Unreachable(trouble) => {
                if self.table.is_news(&trouble) {
                    report::unreachable(&trouble.reason);
                }
                for caller in self.connecting.drain(..) {
                    drop(caller.send(Err(trouble.clone())));
                }
                self.table.unreachable(now, trouble);
            }
            News::Broke { reason, .. } => {
                report::broke(&reason);
                self.table.disconnected(reason);
            }
            News::Changed(names) => self.table.changed(now, names.as_deref()),
            News::Returned(slots) => self.table.returned(now, &slots),
            News::Notice(notice) => self.table.notice(now, &notice),
            News::Replies { sent, replies } => {
                for (id, request, reply) in replies {
                    self.table.reply(now, id, sent, &request, reply);
                }
            }
        }
    }
}
