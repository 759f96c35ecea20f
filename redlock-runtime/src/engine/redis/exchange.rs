//! What goes over one connection: commands, a reply to each in their order, and pushes to the engine.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};

use redis::{Cmd, Pipeline, PushKind, RedisError, Value};
use tokio::sync::mpsc::UnboundedSender;

use super::decode::read_push;
use super::keyspace::Keyspace;
use super::stream::Stream;
use super::wire::Wire;
use crate::engine::protocol::ConnectionEvent;

pub(super) struct Exchange {
    wire: Wire,
    /// Those that were not taken yet.
    replies: VecDeque<Value>,
    pushes: UnboundedSender<ConnectionEvent>,
    /// Pushes about locks outside of it are dropped.
    keyspace: Keyspace,
    /// Why there will be no more replies.
    ended: Option<RedisError>,
}

impl Exchange {
    /// The end of the connection is told to `pushes`, too.
    pub(super) fn over(stream: Stream, keyspace: Keyspace, pushes: UnboundedSender<ConnectionEvent>) -> Self {
        Self { wire: Wire::new(stream), replies: VecDeque::new(), pushes, keyspace, ended: None }
    }

    /// Takes commands, for the next [`write`](Self::write).
    pub(super) fn outgoing(&mut self) -> &mut Vec<u8> {
        self.wire.outgoing()
    }

    pub(super) fn command(&mut self, command: &Cmd) {
        command.write_packed_command(self.outgoing());
    }

    /// Writes what was sent, as far as the stream takes it now.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        if self.ended.is_none()
            && let Err(error) = self.wire.write(cx)
        {
            self.end(error.into());
        }
    }

    /// Goes on writing, and reads replies and pushes. Costs nothing when there is nothing to do.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        self.write(cx);
        if self.ended.is_some() {
            return;
        }
        let Self { wire, replies, pushes, keyspace, .. } = self;
        let read = wire.read(cx, |value| match value {
            Value::Push { kind, data } if !is_reply(&kind) => {
                if let Some(event) = read_push(&kind, &data, keyspace) {
                    let _ = pushes.send(event);
                }
            }
            reply => replies.push_back(reply),
        });
        if let Err(error) = read {
            self.end(error);
        }
    }

    fn end(&mut self, error: RedisError) {
        self.ended = Some(error);
        let _ = self.pushes.send(ConnectionEvent::Closed);
    }

    /// The next `count` replies, once all of them have arrived.
    pub(super) fn replies(&mut self, count: usize) -> Poll<Result<impl Iterator<Item = Value>, RedisError>> {
        if self.replies.len() >= count {
            return Poll::Ready(Ok(self.replies.drain(..count)));
        }
        match &self.ended {
            Some(error) => Poll::Ready(Err(error.clone())),
            None => Poll::Pending,
        }
    }

    /// Sends all commands in one write, and awaits the reply to each. Not for a connection with other commands in flight.
    pub(super) async fn ask(&mut self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        self.outgoing().extend(commands.get_packed_pipeline());
        poll_fn(|cx| {
            self.drive(cx);
            self.replies(commands.len()).map_ok(Iterator::collect)
        })
        .await
    }
}

/// The server confirms a subscription with a push. Only the handshake subscribes.
fn is_reply(kind: &PushKind) -> bool {
    matches!(kind, PushKind::Subscribe | PushKind::SSubscribe)
}
