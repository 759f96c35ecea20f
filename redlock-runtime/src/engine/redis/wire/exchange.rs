//! What goes over one connection: commands, a reply to each in their order, and pushes to the
//! engine.
//!
//! Only their order distinguishes replies, so a connection ends with the first reply that no
//! command has asked for. Below it is the wire, an open stream: bytes go out in their order, and
//! values come in.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;
use tokio::sync::mpsc::UnboundedSender;

use super::command::Pipeline;
use super::error_reply::ErrorReply;
use super::failure::Failure;
use super::keyspace::Keyspace;
use super::resp::{Reader, Unreadable};
use super::seen_fences::SeenFences;
use super::stream::Stream;
use super::value::{PushKind, Value};
use crate::engine::protocol::ConnectionEvent;
use crate::engine::redis::wire::push::read_push;
use crate::engine::wakers::WhenWoken;

/// Pushes that wait for the engine at most: then nothing more is read. While a handshake is under
/// way, those behind them are dropped: what a later one tells of is asked for afterwards anyway.
pub(crate) const UNREAD: usize = 1024;

/// The memory of those that were read since none has waited for the engine, in bytes.
const LARGEST_PUSHES: usize = 4 * 1024 * 1024;

/// So much is read at once, in bytes, so that what has come is taken before more comes.
const AT_ONCE: usize = 1024 * 1024;

/// Room for replies that an idle connection keeps.
const KEPT: usize = 1024;

/// Room for what arrives, in bytes: it grows for a long line alone.
const SMALLEST: usize = 8 * 1024;

/// How much of a larger room for what is sent is kept.
const KEPT_BYTES: usize = 64 * 1024;

/// The longest word that is kept of what a server of another kind says.
const LONGEST_WORD: usize = 40;

pub(crate) struct Exchange {
    wire: Wire,
    /// Those that were not taken yet, with the memory of each.
    replies: VecDeque<(Value, usize)>,
    /// The memory of the pushes since none has waited for the engine.
    pushed: usize,
    /// The address of the server, for the reason of the end.
    server: Arc<str>,
    /// How many replies the server owes, with those that were not taken yet.
    owed: usize,
    push_reader: Option<PushReader>,
    /// The stream takes nothing any more. What the server said before is still read.
    is_deaf: bool,
    /// Why there will be no more replies.
    ended: Option<Failure>,
}

/// Reads the pushes of a connection, and has the channel for them and for the end of the connection.
pub(crate) struct PushReader {
    pub(crate) events: UnboundedSender<ConnectionEvent>,
    /// The reader drops pushes about locks outside of this keyspace.
    pub(crate) keyspace: Keyspace,
    pub(crate) seen: SeenFences,
}

impl PushReader {
    fn read(&self, kind: PushKind, data: &[Value]) -> Option<ConnectionEvent> {
        let mut event = read_push(kind, data, &self.keyspace)?;
        if let ConnectionEvent::Push(push) = &mut event {
            self.seen.on_push(&self.keyspace, push);
        }
        Some(event)
    }
}

/// The answers that arrived before the connection ended.
pub(crate) struct Interrupted {
    pub(crate) answers: Vec<Value>,
    pub(crate) failure: Failure,
}

impl Exchange {
    /// Drops pushes, unless [`with`](Self::with) sets a reader. `server`: the address, for the reason of the end.
    pub(crate) fn over(stream: Stream, server: Arc<str>) -> Self {
        Self {
            wire: Wire::new(stream),
            replies: VecDeque::new(),
            pushed: 0,
            server,
            owed: 0,
            push_reader: None,
            is_deaf: false,
            ended: None,
        }
    }

    /// Sends pushes, and the end of the connection, to the events of `push_reader`.
    pub(crate) fn with(self, push_reader: PushReader) -> Self {
        Self { push_reader: Some(push_reader), ..self }
    }

    /// Before a command is taken: what comes while nothing is owed answers no command, and ends the
    /// connection. Costs nothing when nothing has come.
    pub(crate) fn listen(&mut self, cx: &mut Context<'_>, room: usize) {
        if self.owed == 0 {
            self.read_some(cx, room);
        }
    }

    /// Takes so many commands, for the next [`write`](Self::write). The server replies to each
    /// once.
    pub(crate) fn commands(&mut self, count: usize) -> &mut Vec<u8> {
        self.owed += count;
        self.wire.outgoing()
    }

    /// Writes what was sent, as far as the stream takes it now.
    pub(crate) fn write(&mut self, cx: &mut Context<'_>) {
        // A server that closes says why first, and the end is read behind its words.
        if self.ended.is_none() && !self.is_deaf {
            self.is_deaf = self.wire.write(cx).is_err();
        }
    }

    /// Goes on writing, and reads replies and at most so many pushes: the others wait on the way,
    /// and the server with them. Costs nothing when there is nothing to do.
    #[inline]
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>, room: usize) {
        self.write(cx);
        if self.owed == 0 && self.replies.capacity() > KEPT {
            self.replies.shrink_to(KEPT);
        }
        self.read_some(cx, room);
    }

    fn read_some(&mut self, cx: &mut Context<'_>, mut room: usize) {
        if room >= UNREAD {
            self.pushed = 0;
        }
        if room > 0 && self.pushed < LARGEST_PUSHES {
            let mut pushed = self.pushed;
            self.read(cx, |push_reader, event, memory| {
                let _ = push_reader.events.send(event);
                room -= 1;
                pushed += memory;
                if room == 0 || pushed >= LARGEST_PUSHES {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            self.pushed = pushed;
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        mut pushed: impl FnMut(&PushReader, ConnectionEvent, usize) -> ControlFlow<()>,
    ) {
        if self.ended.is_some() {
            return;
        }
        let Self { wire, replies, owed, push_reader, .. } = self;
        let mut unasked = None;
        let read = wire.read(cx, |value, memory| match value {
            Value::Push { kind, data } if !is_reply(kind) => match push_reader {
                Some(push_reader) => push_reader
                    .read(kind, &data)
                    .map_or(ControlFlow::Continue(()), |event| pushed(push_reader, event, memory)),
                None => ControlFlow::Continue(()),
            },
            reply if replies.len() < *owed => {
                replies.push_back((reply, memory));
                ControlFlow::Continue(())
            }
            reply => {
                unasked = Some(reply);
                ControlFlow::Break(())
            }
        });
        if let Some(reply) = unasked {
            // Those before it may answer other commands than they seem to.
            self.replies.clear();
            self.end(Failure::Unasked(match &reply {
                Value::ServerError(error) => Some(ErrorReply::of(error)),
                _ => None,
            }));
        } else if let Err(failure) = read {
            self.end(failure);
        }
    }

    fn end(&mut self, failure: Failure) {
        if let Some(PushReader { events, .. }) = &self.push_reader {
            let _ = events.send(ConnectionEvent::Closed(failure.reason(&self.server)));
        }
        self.ended = Some(failure);
    }

    /// The reason of its end, for those that used it.
    pub(crate) fn reason(&self, failure: &Failure) -> Arc<str> {
        failure.reason(&self.server)
    }

    /// The next `count` replies, once all of them have arrived.
    pub(crate) fn replies(&mut self, count: usize) -> Poll<Result<impl Iterator<Item = Value>, Failure>> {
        if self.replies.len() >= count {
            self.owed -= count;
            // Most replies have none.
            if self.wire.holds_memory() {
                let memory = self.replies.range(..count).map(|(_, memory)| memory).sum();
                self.wire.taken(memory);
            }
            return Poll::Ready(Ok(self.replies.drain(..count).map(|(reply, _)| reply)));
        }
        match &self.ended {
            Some(failure) => Poll::Ready(Err(failure.clone())),
            None => Poll::Pending,
        }
    }

    /// Sends all commands in one write, and awaits the reply to each. Not for a connection with
    /// other commands in flight; once such a call was given up, the connection serves no other.
    pub(crate) async fn ask(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Interrupted> {
        let (mut room, mut pushed) = (UNREAD, 0);
        poll_fn(|cx| {
            if self.owed > 0 && self.ended.is_none() {
                self.end(Failure::Broke("an earlier command has no answer".into()));
            }
            // What has come since the last answer answers none of these. Before the first, a server
            // may say why it closes.
            if !self.wire.is_silent() {
                self.read(cx, |_, _, _| ControlFlow::Continue(()));
            }
            Poll::Ready(())
        })
        .await;
        self.commands(commands.len()).extend_from_slice(commands.bytes());
        let asked = poll_fn(|cx| {
            self.write(cx);
            self.read(cx, |push_reader, event, memory| {
                pushed += memory;
                if room > 0 && pushed < LARGEST_PUSHES {
                    let _ = push_reader.events.send(event);
                    room -= 1;
                }
                ControlFlow::Continue(())
            });
            self.replies(commands.len()).map_ok(Iterator::collect)
        });
        asked.await.map_err(|failure| {
            let answers: Vec<_> = self.replies.drain(..).map(|(reply, _)| reply).collect();
            let failure = match failure {
                Failure::Closed { was_silent, .. } => {
                    let unanswered = commands.name_of(answers.len());
                    Failure::Closed { was_silent, unanswered }
                }
                other => other,
            };
            Interrupted { answers, failure }
        })
    }
}

/// The server confirms a subscription with a push. Only the handshake subscribes.
fn is_reply(kind: PushKind) -> bool {
    matches!(kind, PushKind::Subscribe | PushKind::SSubscribe)
}

/// Dropping it closes the stream at once, also with replies pending.
pub(crate) struct Wire {
    stream: Stream,
    outgoing: Outgoing,
    incoming: Incoming,
    when_readable: WhenWoken,
}

struct Outgoing {
    bytes: Vec<u8>,
    /// So many of them are written.
    written: usize,
    /// The stream holds none of them back.
    is_flushed: bool,
}

struct Incoming {
    buffer: Vec<u8>,
    /// The bytes that have arrived, and are not taken yet, begin here.
    from: usize,
    to: usize,
    reader: Reader,
    /// The memory of the replies that were not taken yet.
    waiting: usize,
    /// No value has arrived yet.
    is_silent: bool,
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        let outgoing = Outgoing { bytes: Vec::new(), written: 0, is_flushed: true };
        let buffer = vec![0; SMALLEST];
        let reader = Reader::default();
        let incoming = Incoming { buffer, from: 0, to: 0, reader, waiting: 0, is_silent: true };
        Self { stream, outgoing, incoming, when_readable: WhenWoken::default() }
    }

    /// No value has arrived yet.
    pub(crate) fn is_silent(&self) -> bool {
        self.incoming.is_silent
    }

    /// True when some of the replies that were not taken yet take memory.
    pub(crate) fn holds_memory(&self) -> bool {
        self.incoming.waiting > 0
    }

    /// Replies that take so much memory were taken.
    pub(crate) fn taken(&mut self, memory: usize) {
        self.incoming.waiting = self.incoming.waiting.saturating_sub(memory);
    }

    /// Takes what is to be written behind all that came before. The next [`write`](Self::write)
    /// does it.
    pub(crate) fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing.bytes
    }

    /// Writes what the stream takes now. `cx` is woken when it takes more.
    pub(crate) fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Outgoing { bytes, written, is_flushed } = &mut self.outgoing;
        while let Some(rest @ [_, ..]) = bytes.get(*written..) {
            *is_flushed = false;
            match self.stream.poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => *written += count?,
                Poll::Pending => return Ok(()),
            }
        }
        if !*is_flushed {
            bytes.clear();
            bytes.shrink_to(KEPT_BYTES);
            *written = 0;
            *is_flushed = self.stream.poll_flush(cx)?.is_ready();
        }
        Ok(())
    }

    /// Hands over each value that has arrived, with the memory that it takes, until `take` breaks off: then the next read goes on
    /// behind that value. Costs nothing when nothing has arrived.
    pub(crate) fn read(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(Value, usize) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let Self { stream, incoming, when_readable, .. } = self;
        match when_readable.poll(cx, |cx| incoming.read(cx, stream, &mut take)) {
            Poll::Ready(read) => read,
            Poll::Pending => Ok(()),
        }
    }
}

impl Incoming {
    /// Ready at the end of the stream, when `take` breaks off, or when much has come.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        take: &mut impl FnMut(Value, usize) -> ControlFlow<()>,
    ) -> Poll<Result<(), Failure>> {
        let mut arrived_now = 0;
        loop {
            if self.take_all(take)?.is_break() {
                return Poll::Ready(Ok(()));
            }
            self.make_room();
            let mut room = ReadBuf::new(self.buffer.get_mut(self.to..).unwrap_or_default());
            if let Err(error) = ready!(stream.poll_read(cx, &mut room)) {
                return Poll::Ready(Err(self.ended(error.into())));
            }
            match room.filled().len() {
                0 => return Poll::Ready(Err(self.ended(io::Error::from(io::ErrorKind::BrokenPipe).into()))),
                arrived => {
                    self.to += arrived;
                    arrived_now += arrived;
                }
            }
            if arrived_now >= AT_ONCE {
                cx.waker().wake_by_ref();
                return Poll::Ready(self.take_all(take).map(|_| ()));
            }
        }
    }

    fn take_all(
        &mut self,
        take: &mut impl FnMut(Value, usize) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure> {
        let mut taken = ControlFlow::Continue(());
        while taken.is_continue() {
            let arrived = self.buffer.get(self.from..self.to).unwrap_or_default();
            let mut rest = arrived;
            let value = self.reader.next(&mut rest, self.waiting).map_err(|unreadable| match unreadable {
                Unreadable::TooMuch(what) => Failure::TooMuch(what),
                Unreadable::Malformed if self.is_silent => stranger(arrived),
                Unreadable::Malformed => Failure::Broke("it sent what is no reply".into()),
            })?;
            self.from += arrived.len() - rest.len();
            let Some(value) = value else {
                break;
            };
            self.is_silent = false;
            let memory = self.reader.memory();
            if !matches!(value, Value::Push { .. }) {
                self.waiting += memory;
            }
            taken = take(value, memory);
        }
        Ok(taken)
    }

    fn ended(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Closed { unanswered, .. } => Failure::Closed { was_silent: self.is_silent, unanswered },
            other => other,
        }
    }

    /// At the end of the buffer, for the rest of a line or for what comes next.
    fn make_room(&mut self) {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            if self.buffer.len() > SMALLEST {
                self.buffer = vec![0; SMALLEST];
            }
        }
        if self.to == self.buffer.len() {
            self.buffer.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            // One line takes more than half of it.
            if self.to > self.buffer.len() / 2 {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
        }
    }
}

/// The failure that names what answers with these bytes. It shows only the first word: the rest
/// may repeat the request, and a password with it.
fn stranger(bytes: &[u8]) -> Failure {
    // An alert, of any version of TLS.
    if let [0x15, 3, ..] = bytes {
        return Failure::SpeaksTls;
    }
    // The greeting of MySQL and MariaDB: its length in three bytes, the number of a packet, and the
    // version of their protocol.
    if let [_, _, 0, 0, 10, ..] = bytes {
        return Failure::NoRedis("the greeting of MySQL".to_owned());
    }
    let word = bytes.split(|byte| !byte.is_ascii_graphic()).next().unwrap_or_default();
    let word = String::from_utf8_lossy(word.get(..LONGEST_WORD).unwrap_or(word));
    Failure::NoRedis(match &*word {
        "" => "bytes that are no reply".to_owned(),
        word => format!("`{word}`"),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn exchange() -> (Exchange, DuplexStream) {
        let (client, server) = duplex(1 << 16);
        (Exchange::over(Stream::Simulated(Box::new(client)), "server:1".into()), server)
    }

    fn ping() -> Pipeline {
        let mut commands = Pipeline::default();
        commands.add(&["PING"]);
        commands
    }

    #[tokio::test]
    async fn what_comes_between_two_calls_answers_neither() {
        let (mut exchange, mut server) = exchange();
        let commands = ping();
        let serve = async {
            let _ = server.read(&mut [0; 100]).await;
            let _ = server.write_all(b":1\r\n").await;
        };
        let (answers, ()) = tokio::join!(exchange.ask(&commands), serve);
        assert!(answers.is_ok_and(|answers| answers == [Value::Int(1)]));
        let _ = server.write_all(b":2\r\n").await;
        let Err(Interrupted { failure, .. }) = exchange.ask(&commands).await else { unreachable!() };
        assert_eq!(failure.to_string(), "a reply came that no command had asked for");
    }

    #[tokio::test]
    async fn the_late_answer_to_a_call_that_was_given_up_answers_no_other() {
        let (mut exchange, mut server) = exchange();
        let commands = ping();
        let given_up = tokio::time::timeout(Duration::from_millis(10), exchange.ask(&commands)).await;
        assert!(given_up.is_err(), "nobody answers");
        let _ = server.write_all(b":1\r\n").await;
        let Err(Interrupted { failure, .. }) = exchange.ask(&commands).await else { unreachable!() };
        assert_eq!(failure.to_string(), "an earlier command has no answer");
    }

    #[tokio::test]
    async fn a_server_that_closes_is_told_from_one_that_said_something_by_what_has_no_answer() {
        let (mut exchange, mut server) = exchange();
        let mut commands = ping();
        commands.add(&["CLIENT", "KILL", "ID", "7"]);
        commands.add(&["INFO", "server"]);
        let serve = async {
            let _ = server.read(&mut [0; 100]).await;
            let _ = server.write_all(b"+PONG\r\n").await;
            drop(server);
        };
        let (answers, ()) = tokio::join!(exchange.ask(&commands), serve);
        let Err(Interrupted { answers, failure }) = answers else { unreachable!() };
        assert_eq!(answers.len(), 1);
        assert_eq!(failure.to_string(), "it closed the connection instead of answering CLIENT KILL");
    }

    #[test]
    fn a_server_of_another_kind_is_told_by_its_first_word() {
        for (bytes, expected) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n"[..],
                "it answered with `HTTP/1.1`: it is no Redis server",
            ),
            (b"SSH-2.0-OpenSSH_9.6\r\n", "it answered with `SSH-2.0-OpenSSH_9.6`: it is no Redis server"),
            (b"J\0\0\0\x0a8.0.36\0", "it answered with the greeting of MySQL: it is no Redis server"),
            (b"502 AUTH default secret\r\n", "it answered with `502`: it is no Redis server"),
            (b"\x01\x02\x03", "it answered with bytes that are no reply: it is no Redis server"),
            (b"\x15\x03\x01\0\x02\x02\x46", "it speaks TLS on this port"),
        ] {
            assert_eq!(stranger(bytes).to_string(), expected);
        }
    }
}
