//! The network between processes and servers: bytes on their way, and what can happen to them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{BEGINNING, ProcessId, ServerId, World, nanos};
use crate::server::{ClientId, Data, Server};

const MILLISECOND: u64 = 1_000_000;

/// How often a server looks for expired keys by itself.
const CRON: u64 = 100 * MILLISECOND;

/// How long bytes take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// At most so many milliseconds, most of the time.
    pub usual: u64,
    /// One in so many is late; 0 for none.
    pub late: u32,
    /// By at most so many milliseconds.
    pub lateness: u64,
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutKind {
    /// Both ends know at once; what is on its way is lost.
    Reset,
    /// The client knows at once; what it has sent arrives up to so many milliseconds late.
    LateRequests(u64),
    /// The server knows at once, and the client only after so many milliseconds: pushes are lost.
    HalfOpen(u64),
}

/// What a server does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It answers.
    Up,
    /// It is stopped: what arrives waits.
    Frozen,
    /// It does not run.
    Down,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ConnectionId(usize);

/// A server, its clock and what it does.
pub(super) struct Host {
    server: Server,
    port: u16,
    /// How often it has started.
    starts: u64,
    fate: Fate,
    ahead: i64,
    /// What a byte costs, in microseconds, and until when it is busy.
    cost: u64,
    busy_until: u64,
    /// For how long it was busy with what arrived together, at most: in nanoseconds.
    longest: u64,
    /// The last time that it has told, in microseconds.
    told: u64,
    has_cron: bool,
}

impl Host {
    pub(super) fn new(server: Server, port: u16, ahead: i64) -> Self {
        Self {
            server,
            port,
            starts: 1,
            fate: Fate::Up,
            ahead,
            cost: 0,
            busy_until: 0,
            longest: 0,
            told: 0,
            has_cron: false,
        }
    }
}

enum Chunk {
    Bytes(Vec<u8>),
    End,
}

struct Connection {
    process: ProcessId,
    server: ServerId,
    client: Option<ClientId>,
    state: State,
    to_server: Way,
    to_client: Way,
    inbox: VecDeque<u8>,
    reader: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Opening,
    Refused,
    Open,
    /// The client knows that it has ended.
    Ended,
}

/// Bytes in one direction, in order.
#[derive(Default)]
struct Way {
    chunks: VecDeque<(u64, Chunk)>,
    last: u64,
}

impl Way {
    fn push(&mut self, at: u64, chunk: Chunk) -> u64 {
        let at = at.max(self.last);
        self.last = at;
        match (self.chunks.back_mut(), chunk) {
            (Some((before, Chunk::Bytes(bytes))), Chunk::Bytes(more)) if *before == at => bytes.extend(more),
            (_, chunk) => self.chunks.push_back((at, chunk)),
        }
        at
    }

    fn pop(&mut self, now: u64) -> Option<Chunk> {
        if self.chunks.front()?.0 > now {
            return None;
        }
        self.chunks.pop_front().map(|(_, chunk)| chunk)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Open(ConnectionId),
    ToServer(ConnectionId),
    ToClient(ConnectionId),
    Cron(ServerId),
}

pub(super) struct Network {
    latency: Latency,
    slow: Option<Latency>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    next: u64,
    connections: BTreeMap<ConnectionId, Connection>,
    opened: usize,
    /// Between these nothing passes: it waits.
    parted: BTreeSet<(ProcessId, ServerId)>,
    of_client: BTreeMap<(ServerId, ClientId), ConnectionId>,
    deliverer: Option<Waker>,
}

impl Network {
    pub(super) fn new(latency: Latency) -> Self {
        Self {
            latency,
            slow: None,
            events: BinaryHeap::new(),
            next: 0,
            connections: BTreeMap::new(),
            opened: 0,
            parted: BTreeSet::new(),
            of_client: BTreeMap::new(),
            deliverer: None,
        }
    }

    fn is_parted(&self, connection: &Connection) -> bool {
        self.parted.contains(&(connection.process, connection.server))
    }

    fn latency(&self) -> Latency {
        self.slow.unwrap_or(self.latency)
    }

    fn at(&mut self, at: u64, event: Event) {
        self.next += 1;
        let is_next = self.events.peek().is_none_or(|Reverse((first, ..))| at < *first);
        self.events.push(Reverse((at, self.next, event)));
        if is_next {
            self.deliverer.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// Delivers what is due, as long as the world lasts.
pub(super) async fn deliver() {
    let mut alarm: Option<Pin<Box<Sleep>>> = None;
    poll_fn(move |cx| {
        let Some(world) = World::here_if_any() else {
            return Poll::Ready(());
        };
        loop {
            world.deliver_due();
            let next = {
                let network = &mut world.network.borrow_mut();
                network.deliverer = Some(cx.waker().clone());
                network.events.peek().map(|Reverse((at, ..))| *at)
            };
            let Some(next) = next else {
                return Poll::Pending;
            };
            let at = world.started + Duration::from_nanos(next);
            match &mut alarm {
                Some(alarm) => alarm.as_mut().reset(at),
                None => alarm = Some(Box::pin(sleep_until(at))),
            }
            if let Some(alarm) = &mut alarm
                && alarm.as_mut().poll(cx).is_pending()
            {
                return Poll::Pending;
            }
            if Instant::now() < at {
                return Poll::Pending;
            }
        }
    })
    .await;
}

pub(super) fn with_server<R>(world: &World, id: ServerId, work: impl FnOnce(&mut Server, u64) -> R) -> R {
    let now = world.now();
    let (done, output, closed, wants_cron, broadcasts) = {
        let host = &mut world.hosts.borrow_mut()[id.0];
        let micros = server_time(host, now);
        let done = work(&mut host.server, micros);
        let wants_cron = !host.has_cron && host.server.next_expiry().is_some();
        host.has_cron |= wants_cron;
        let broadcasts = host.server.take_broadcasts();
        (done, host.server.take_output(), host.server.take_closed(), wants_cron, broadcasts)
    };
    if wants_cron {
        world.network.borrow_mut().at(now + CRON, Event::Cron(id));
    }
    for (client, bytes) in output {
        world.to_client(id, client, Chunk::Bytes(bytes));
    }
    for client in closed {
        world.to_client(id, client, Chunk::End);
        world.network.borrow_mut().of_client.remove(&(id, client));
    }
    if !broadcasts.is_empty() {
        to_other_nodes(world, id, &broadcasts);
    }
    done
}

/// In a Cluster, what is published to a plain channel goes to all nodes.
fn to_other_nodes(world: &World, from: ServerId, broadcasts: &[(Vec<u8>, Vec<u8>)]) {
    let others = world.hosts.borrow().len();
    for other in (0..others).map(ServerId).filter(|other| *other != from && world.fate(*other) == Fate::Up) {
        with_server(world, other, |server, now| {
            for (channel, message) in broadcasts {
                server.deliver(now, channel, message);
            }
        });
    }
}

/// RESP in one line: without lengths, and without the sources of scripts.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$', '>', '%']));
    let short = words.map(|word| if word.len() > 200 { "…" } else { word });
    short.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Another one after each start.
pub(super) fn run_id(port: u16, starts: u64) -> String {
    format!("{port:020}{starts:020}")
}

/// In microseconds since 1970; each look at it is a later one.
fn server_time(host: &mut Host, now: u64) -> u64 {
    let wall = nanos(BEGINNING) / 1000 + now / 1000;
    let shown = wall.saturating_add_signed(host.ahead);
    host.told = shown.max(host.told + 1);
    host.told
}

impl World {
    fn delay(&self) -> u64 {
        let latency = self.network.borrow().latency();
        if self.chance(latency.late) {
            self.number(0..latency.lateness + 1) * MILLISECOND
        } else {
            self.number(0..latency.usual + 1) * MILLISECOND
        }
    }

    /// Bytes take longer than usual from now on; with `None`, as usual.
    pub fn slow_down(&self, latency: Option<Latency>) {
        self.network.borrow_mut().slow = latency;
    }

    pub(super) fn open_connection(&self, process: ProcessId, port: u16) -> ConnectionId {
        let at = self.now() + self.delay() + self.delay();
        let is_dead = self.is_dead(process);
        let servers = self.hosts.borrow();
        let server = servers.iter().position(|host| host.port == port);
        let network = &mut self.network.borrow_mut();
        network.opened += 1;
        let id = ConnectionId(network.opened);
        let state = if server.is_none() || is_dead { State::Refused } else { State::Opening };
        network.connections.insert(
            id,
            Connection {
                process,
                server: ServerId(server.unwrap_or(usize::MAX)),
                client: None,
                state,
                to_server: Way::default(),
                to_client: Way::default(),
                inbox: VecDeque::new(),
                reader: None,
            },
        );
        network.at(at, Event::Open(id));
        id
    }

    pub(super) fn poll_open(&self, id: ConnectionId, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let network = &mut self.network.borrow_mut();
        let Some(connection) = network.connections.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into()));
        };
        match connection.state {
            State::Open => Poll::Ready(Ok(())),
            State::Refused | State::Ended => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
            State::Opening => {
                connection.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(super) fn poll_read(
        &self,
        id: ConnectionId,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let network = &mut self.network.borrow_mut();
        let Some(connection) = network.connections.get_mut(&id) else {
            return Poll::Ready(Ok(()));
        };
        if connection.inbox.is_empty() {
            if connection.state == State::Ended {
                return Poll::Ready(Ok(()));
            }
            connection.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let length = connection.inbox.len().min(into.remaining());
        let bytes = connection.inbox.make_contiguous();
        into.put_slice(&bytes[..length]);
        connection.inbox.drain(..length);
        Poll::Ready(Ok(()))
    }

    pub(super) fn write(&self, id: ConnectionId, bytes: &[u8]) -> io::Result<usize> {
        let at = self.now() + self.delay();
        let network = &mut self.network.borrow_mut();
        let Some(connection) = network.connections.get_mut(&id).filter(|open| open.state == State::Open)
        else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let at = connection.to_server.push(at, Chunk::Bytes(bytes.to_vec()));
        network.at(at, Event::ToServer(id));
        Ok(bytes.len())
    }

    pub(super) fn close(&self, id: ConnectionId) {
        let at = self.now() + self.delay();
        let network = &mut self.network.borrow_mut();
        let Some(connection) = network.connections.get_mut(&id) else { return };
        connection.state = State::Ended;
        connection.inbox.clear();
        let at = connection.to_server.push(at, Chunk::End);
        network.at(at, Event::ToServer(id));
    }

    fn to_client(&self, server: ServerId, client: ClientId, chunk: Chunk) {
        let at = self.now() + self.delay();
        let network = &mut self.network.borrow_mut();
        let Some(&id) = network.of_client.get(&(server, client)) else { return };
        let Some(connection) = network.connections.get_mut(&id) else { return };
        let at = connection.to_client.push(at, chunk);
        network.at(at, Event::ToClient(id));
    }

    fn deliver_due(&self) {
        loop {
            let now = self.now();
            let event = {
                let network = &mut self.network.borrow_mut();
                match network.events.peek() {
                    Some(Reverse((at, ..))) if *at <= now => network.events.pop(),
                    _ => None,
                }
            };
            match event {
                Some(Reverse((_, _, Event::Open(id)))) => self.accept(id),
                Some(Reverse((_, _, Event::ToServer(id)))) => self.to_server(now, id),
                Some(Reverse((_, _, Event::ToClient(id)))) => self.arrived(now, id),
                Some(Reverse((_, _, Event::Cron(id)))) => self.cron(now, id),
                None => return,
            }
        }
    }

    fn accept(&self, id: ConnectionId) {
        let (process, server) = {
            let network = &mut self.network.borrow_mut();
            let Some(connection) = network.connections.get(&id) else { return };
            if network.is_parted(connection) {
                return;
            }
            let (process, server) = (connection.process, connection.server);
            let Some(connection) = network.connections.get_mut(&id) else { return };
            if connection.state != State::Opening {
                connection.reader.take().into_iter().for_each(Waker::wake);
                return;
            }
            if self.hosts.borrow()[server.0].fate == Fate::Down {
                connection.state = State::Refused;
                connection.reader.take().into_iter().for_each(Waker::wake);
                return;
            }
            (process, server)
        };
        // A frozen server's system accepts.
        let address = format!("10.0.0.{}:{}", process.0, 10_000 + id.0);
        let client = with_server(self, server, |server, now| server.connect(now, &address));
        let network = &mut self.network.borrow_mut();
        network.of_client.insert((server, client), id);
        if let Some(connection) = network.connections.get_mut(&id) {
            connection.client = Some(client);
            connection.state = State::Open;
            connection.reader.take().into_iter().for_each(Waker::wake);
        }
    }

    fn to_server(&self, now: u64, id: ConnectionId) {
        loop {
            let busy_until = {
                let network = &self.network.borrow();
                let Some(connection) = network.connections.get(&id) else { return };
                self.hosts.borrow().get(connection.server.0).map_or(0, |host| host.busy_until)
            };
            if busy_until > now {
                self.network.borrow_mut().at(busy_until, Event::ToServer(id));
                return;
            }
            let (server, client, chunk) = {
                let network = &mut self.network.borrow_mut();
                let Some(connection) = network.connections.get(&id) else { return };
                let server = connection.server;
                if network.is_parted(connection)
                    || self.hosts.borrow().get(server.0).is_some_and(|host| host.fate == Fate::Frozen)
                {
                    return;
                }
                let Some(connection) = network.connections.get_mut(&id) else { return };
                let Some(chunk) = connection.to_server.pop(now) else { return };
                let client = connection.client;
                if let Chunk::End = chunk {
                    // Its client may have to hear of the end, too, and closes it then.
                    if connection.state == State::Ended {
                        network.connections.remove(&id);
                    }
                    if let Some(client) = client {
                        network.of_client.remove(&(server, client));
                    }
                }
                (server, client, chunk)
            };
            let Some(client) = client else { continue };
            match chunk {
                Chunk::Bytes(bytes) => {
                    self.note(|| format!("    {id:?} to server {}: {}", server.0, readable(&bytes)));
                    {
                        let host = &mut self.hosts.borrow_mut()[server.0];
                        let cost = host.cost * u64::try_from(bytes.len()).unwrap_or(0);
                        host.busy_until = now + cost * 1000;
                        host.longest = host.longest.max(cost * 1000);
                    }
                    with_server(self, server, |server, micros| server.receive(micros, client, &bytes));
                }
                Chunk::End => with_server(self, server, |server, _| server.disconnect(client)),
            }
        }
    }

    fn arrived(&self, now: u64, id: ConnectionId) {
        let network = &mut self.network.borrow_mut();
        let Some(connection) = network.connections.get(&id) else { return };
        if network.is_parted(connection) {
            return;
        }
        let Some(connection) = network.connections.get_mut(&id) else { return };
        let mut has_news = false;
        while let Some(chunk) = connection.to_client.pop(now) {
            has_news = true;
            match chunk {
                Chunk::Bytes(bytes) if connection.state != State::Ended => {
                    self.note(|| {
                        format!("    {id:?} to process {}: {}", connection.process.0, readable(&bytes))
                    });
                    connection.inbox.extend(bytes);
                }
                Chunk::Bytes(_) => {}
                Chunk::End => connection.state = State::Ended,
            }
        }
        if has_news {
            connection.reader.take().into_iter().for_each(Waker::wake);
        }
    }

    fn cron(&self, now: u64, id: ServerId) {
        let is_up = self.hosts.borrow()[id.0].fate == Fate::Up;
        if is_up {
            with_server(self, id, Server::expire);
        }
        let host = &mut self.hosts.borrow_mut()[id.0];
        host.has_cron = host.server.next_expiry().is_some();
        if host.has_cron {
            self.network.borrow_mut().at(now + CRON, Event::Cron(id));
        }
    }

    /// Nothing passes between them until they are [joined](Self::join) again; then it arrives late.
    pub fn part(&self, process: ProcessId, server: ServerId) {
        self.network.borrow_mut().parted.insert((process, server));
    }

    /// What waited arrives.
    pub fn join(&self, process: ProcessId, server: ServerId) {
        self.network.borrow_mut().parted.remove(&(process, server));
        self.resume(|connection| connection.process == process && connection.server == server);
    }

    /// What is on its way, and has waited for a process or a server, goes on.
    fn resume(&self, which: impl Fn(&Connection) -> bool) {
        let now = self.now();
        let network = &mut self.network.borrow_mut();
        let ids: Vec<_> = network
            .connections
            .iter()
            .filter(|(_, open)| which(open))
            .map(|(id, open)| (*id, open.state))
            .collect();
        for (id, state) in ids {
            if state == State::Opening {
                network.at(now, Event::Open(id));
            }
            network.at(now, Event::ToServer(id));
            network.at(now, Event::ToClient(id));
        }
    }

    /// Cuts the connections between a process and a server.
    pub fn cut(&self, process: ProcessId, server: ServerId, how: CutKind) {
        self.cut_where(how, |connection| connection.process == process && connection.server == server);
    }

    /// These bytes come to the process over each connection on which nothing is under way, as if
    /// the server had sent them. Returns whether there was one.
    pub fn say_unasked(&self, process: ProcessId, server: ServerId, bytes: &[u8]) -> bool {
        let network = &mut self.network.borrow_mut();
        let is_parted = network.parted.contains(&(process, server));
        let idle = network.connections.values_mut().filter(|open| {
            let is_empty = open.to_server.chunks.is_empty() && open.to_client.chunks.is_empty();
            let is_theirs = open.process == process && open.server == server;
            is_theirs && open.state == State::Open && is_empty && open.inbox.is_empty() && !is_parted
        });
        let mut readers = Vec::new();
        for connection in idle {
            connection.inbox.extend(bytes);
            readers.push(connection.reader.take());
        }
        let has_said = !readers.is_empty();
        readers.into_iter().flatten().for_each(Waker::wake);
        has_said
    }

    /// A server has a connection of that process.
    #[must_use]
    pub fn has_connections(&self, process: ProcessId) -> bool {
        let network = self.network.borrow();
        network.connections.values().any(|open| open.process == process && open.client.is_some())
    }

    /// The system of the process closes its connections.
    pub(super) fn close_all_of(&self, process: ProcessId) {
        let ids: Vec<_> = {
            let network = self.network.borrow();
            let theirs = network.connections.iter().filter(|(_, open)| open.process == process);
            theirs.map(|(id, _)| *id).collect()
        };
        for id in ids {
            self.close(id);
        }
    }

    pub(super) fn cut_all_of(&self, process: ProcessId) {
        self.cut_where(CutKind::Reset, |connection| connection.process == process);
    }

    fn cut_where(&self, how: CutKind, which: impl Fn(&Connection) -> bool) {
        let now = self.now();
        let mut gone = Vec::new();
        {
            let network = &mut self.network.borrow_mut();
            let ids: Vec<_> =
                network.connections.iter().filter(|(_, open)| which(open)).map(|(id, _)| *id).collect();
            for id in ids {
                let Some(connection) = network.connections.get_mut(&id) else { continue };
                let (client_at, server_at) = match how {
                    CutKind::Reset => (now, now),
                    CutKind::LateRequests(late) => (now, now + late * MILLISECOND),
                    CutKind::HalfOpen(late) => (now + late * MILLISECOND, now),
                };
                if server_at == now {
                    connection.to_server.chunks.clear();
                    gone.extend(connection.client.map(|client| (connection.server, client)));
                    connection.client = None;
                } else {
                    connection.to_server.last = connection.to_server.last.max(server_at);
                    for (at, _) in &mut connection.to_server.chunks {
                        *at = (*at).max(server_at);
                    }
                }
                connection.to_client.chunks.clear();
                connection.to_client.last = client_at;
                connection.to_client.push(client_at, Chunk::End);
                let at = connection.to_server.push(server_at, Chunk::End);
                network.at(at, Event::ToServer(id));
                network.at(client_at, Event::ToClient(id));
            }
        }
        for (server, client) in gone {
            self.network.borrow_mut().of_client.remove(&(server, client));
            with_server(self, server, |server, _| server.disconnect(client));
        }
    }

    /// Freezes, ends or starts a server. One that ends loses its connections.
    pub fn set_fate(&self, id: ServerId, fate: Fate) {
        self.hosts.borrow_mut()[id.0].fate = fate;
        match fate {
            Fate::Down => self.cut_where(CutKind::Reset, |connection| connection.server == id),
            Fate::Up => self.resume(|connection| connection.server == id),
            Fate::Frozen => {}
        }
    }

    /// The clock of a server jumps by so many microseconds.
    pub fn move_clock(&self, id: ServerId, jump: i64) {
        let host = &mut self.hosts.borrow_mut()[id.0];
        host.ahead += jump;
        host.told = 0;
    }

    /// What a byte costs the server from now on, in microseconds.
    pub fn set_cost(&self, id: ServerId, cost: u64) {
        self.hosts.borrow_mut()[id.0].cost = cost;
    }

    /// For how many nanoseconds a server gave no answer, at most, because it was slow.
    #[must_use]
    pub fn longest_silence(&self) -> u64 {
        self.hosts.borrow().iter().map(|host| host.longest).max().unwrap_or(0)
    }

    /// Another process of a server that has ended, with its data or without.
    pub fn restart_server(&self, id: ServerId, keeps_data: bool) {
        let run_id = {
            let host = &mut self.hosts.borrow_mut()[id.0];
            host.starts += 1;
            run_id(host.port, host.starts)
        };
        with_server(self, id, |server, now| {
            let data = if keeps_data { server.data() } else { Data::default() };
            server.restart(now, &run_id, data);
        });
    }

    /// What the server does.
    #[must_use]
    pub fn fate(&self, id: ServerId) -> Fate {
        self.hosts.borrow()[id.0].fate
    }

    /// True when nothing keeps the process from talking to the server.
    #[must_use]
    pub fn are_joined(&self, process: ProcessId, server: ServerId) -> bool {
        self.fate(server) == Fate::Up && !self.network.borrow().parted.contains(&(process, server))
    }

    /// The connections that servers have now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.network.borrow().of_client.len()
    }
}
