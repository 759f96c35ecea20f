//! What goes over one connection: commands, a reply to each in their order, and pushes to the engine.
//!
//! Replies are told apart by their order alone, so a connection ends with the first reply that no command has asked for.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::{Context, Poll};

use redis::{Arg, Cmd, Pipeline, PushKind, Value};
use tokio::sync::mpsc::UnboundedSender;

use super::decode::read_push;
use super::error_reply::ErrorReply;
use super::failure::Failure;
use super::keyspace::Keyspace;
use super::stream::Stream;
use super::wire::Wire;
use crate::engine::protocol::ConnectionEvent;

/// Pushes that are kept while a handshake is under way. What a later one tells of is asked for afterwards anyway.
const PUSHES_BEFORE: usize = 1024;

/// Room for replies that an idle connection keeps.
const KEPT: usize = 1024;

pub(super) struct Exchange {
    wire: Wire,
    /// Those that were not taken yet.
    replies: VecDeque<Value>,
    /// How many replies the server owes, with those that were not taken yet.
    owed: usize,
    inbox: Option<Inbox>,
    /// The stream takes nothing any more. What the server said before is still read.
    is_deaf: bool,
    /// Why there will be no more replies.
    ended: Option<Failure>,
}

/// Where the pushes of a connection go, and its end.
pub(super) struct Inbox {
    pub(super) events: UnboundedSender<ConnectionEvent>,
    /// Pushes about locks outside of it are dropped.
    pub(super) keyspace: Keyspace,
}

/// What came before the connection ended.
pub(super) struct Interrupted {
    pub(super) answers: Vec<Value>,
    pub(super) failure: Failure,
}

impl Exchange {
    /// Without an inbox, pushes are dropped.
    pub(super) fn over(stream: Stream) -> Self {
        Self {
            wire: Wire::new(stream),
            replies: VecDeque::new(),
            owed: 0,
            inbox: None,
            is_deaf: false,
            ended: None,
        }
    }

    /// With an inbox, which is told of the end, too.
    pub(super) fn with(self, inbox: Inbox) -> Self {
        Self { inbox: Some(inbox), ..self }
    }

    /// Before a command is taken: what comes while nothing is owed answers no command, and ends the connection. Costs nothing
    /// when nothing has come.
    pub(super) fn listen(&mut self, cx: &mut Context<'_>, room: usize) {
        if self.owed == 0 {
            self.read_some(cx, room);
        }
    }

    /// Takes so many commands, for the next [`write`](Self::write). The server replies to each once.
    pub(super) fn commands(&mut self, count: usize) -> &mut Vec<u8> {
        self.owed += count;
        self.wire.outgoing()
    }

    /// Writes what was sent, as far as the stream takes it now.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        // A server that closes says why first, and the end is read behind its words.
        if self.ended.is_none() && !self.is_deaf {
            self.is_deaf = self.wire.write(cx).is_err();
        }
    }

    /// Goes on writing, and reads replies and at most so many pushes: the others wait on the way, and the server with them.
    /// Costs nothing when there is nothing to do.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>, room: usize) {
        self.write(cx);
        if self.owed == 0 && self.replies.capacity() > KEPT {
            self.replies.shrink_to(KEPT);
        }
        self.read_some(cx, room);
    }

    fn read_some(&mut self, cx: &mut Context<'_>, mut room: usize) {
        if room > 0 {
            self.read(cx, |inbox, event| {
                let _ = inbox.events.send(event);
                room -= 1;
                if room == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        mut pushed: impl FnMut(&Inbox, ConnectionEvent) -> ControlFlow<()>,
    ) {
        if self.ended.is_some() {
            return;
        }
        let Self { wire, replies, owed, inbox, .. } = self;
        let mut unasked = None;
        let read = wire.read(cx, |value| match value {
            Value::Push { kind, data } if !is_reply(&kind) => match inbox {
                Some(inbox) => read_push(&kind, &data, &inbox.keyspace)
                    .map_or(ControlFlow::Continue(()), |event| pushed(inbox, event)),
                None => ControlFlow::Continue(()),
            },
            reply if replies.len() < *owed => {
                replies.push_back(reply);
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
        if let Some(Inbox { events, .. }) = &self.inbox {
            let _ = events.send(ConnectionEvent::Closed(failure.reason()));
        }
        self.ended = Some(failure);
    }

    /// The next `count` replies, once all of them have arrived.
    pub(super) fn replies(&mut self, count: usize) -> Poll<Result<impl Iterator<Item = Value>, Failure>> {
        if self.replies.len() >= count {
            self.owed -= count;
            return Poll::Ready(Ok(self.replies.drain(..count)));
        }
        match &self.ended {
            Some(failure) => Poll::Ready(Err(failure.clone())),
            None => Poll::Pending,
        }
    }

    /// Sends all commands in one write, and awaits the reply to each. Not for a connection with other commands in flight; once
    /// such a call was given up, the connection serves no other.
    pub(super) async fn ask(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Interrupted> {
        let mut room = PUSHES_BEFORE;
        poll_fn(|cx| {
            if self.owed > 0 && self.ended.is_none() {
                self.end(Failure::Broke("an earlier command has no answer".into()));
            }
            // What has come since the last answer answers none of these. Before the first, a server may say why it closes.
            if !self.wire.is_silent() {
                self.read(cx, |_, _| ControlFlow::Continue(()));
            }
            Poll::Ready(())
        })
        .await;
        self.commands(commands.len()).extend(commands.get_packed_pipeline());
        let asked = poll_fn(|cx| {
            self.write(cx);
            self.read(cx, |inbox, event| {
                if room > 0 {
                    let _ = inbox.events.send(event);
                    room -= 1;
                }
                ControlFlow::Continue(())
            });
            self.replies(commands.len()).map_ok(Iterator::collect)
        });
        asked.await.map_err(|failure| {
            let answers: Vec<_> = self.replies.drain(..).collect();
            let failure = match failure {
                Failure::Closed { was_silent, .. } => {
                    let unanswered = commands.cmd_iter().nth(answers.len()).map(name_of);
                    Failure::Closed { was_silent, unanswered }
                }
                other => other,
            };
            Interrupted { answers, failure }
        })
    }
}

/// One word or two, and none of its arguments.
fn name_of(command: &Cmd) -> String {
    let words = command.args_iter().map_while(|argument| match argument {
        Arg::Simple(word) => std::str::from_utf8(word).ok(),
        _ => None,
    });
    let mut words = words.take(2);
    match (words.next().unwrap_or_default(), words.next()) {
        (first @ ("CLIENT" | "CLUSTER" | "CONFIG" | "PUBSUB" | "SENTINEL"), Some(second)) => {
            format!("{first} {second}")
        }
        (first, _) => first.to_owned(),
    }
}

/// The server confirms a subscription with a push. Only the handshake subscribes.
fn is_reply(kind: &PushKind) -> bool {
    matches!(kind, PushKind::Subscribe | PushKind::SSubscribe)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn exchange() -> (Exchange, DuplexStream) {
        let (client, server) = duplex(1 << 16);
        (Exchange::over(Stream::new(client)), server)
    }

    fn ping() -> Pipeline {
        let mut commands = Pipeline::new();
        commands.cmd("PING");
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
        commands.cmd("CLIENT").arg("KILL").arg("ID").arg(7).cmd("INFO").arg("server");
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
    fn a_command_is_named_without_its_arguments() {
        for (words, name) in [
            (&["SUBSCRIBE", "lock:%inbox"][..], "SUBSCRIBE"),
            (&["EVAL", "return redis.call('GET', KEYS[1])"], "EVAL"),
            (&["CLIENT", "NO-EVICT", "ON"], "CLIENT NO-EVICT"),
            (&["HELLO", "3", "AUTH", "default", "SECRET"], "HELLO"),
            (&["AUTH", "SECRET"], "AUTH"),
        ] {
            let mut command = Cmd::new();
            command.arg(words);
            assert_eq!(name_of(&command), name);
        }
    }
}
