//! With `replicas`, a caller gets its lock only after so many replicas have it: a write behind the grant, then `WAIT`.
//!
//! It has its own connection, because `WAIT` blocks the commands behind it. `WAIT` covers only the writes of its own
//! connection and those before them in the replication stream, so a renewal is written behind the grant. While one batch
//! waits, the next one grows.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, WeakUnboundedSender, unbounded_channel};

use super::decode::is_passing;
use super::encode::in_ms;
use super::error_reply::ErrorReply;
use super::node::RedisNode;
use super::scripts::CONFIRM;
use crate::clock::Moment;
use crate::engine::command::Command;
use crate::engine::protocol::{Confirmation, ConnectionEvent, Disconnected, Unconfirmed};

/// Confirms until the engine ends.
pub(crate) struct Confirmer {
    pub(crate) node: RedisNode,
    pub(crate) wanted: u32,
    /// For one batch, with a new connection if it needs one.
    pub(crate) limit: Duration,
    pub(crate) commands: WeakUnboundedSender<Command>,
}

struct OpenConnection {
    connection: MultiplexedConnection,
    /// When the server last answered.
    heard: Moment,
    /// The connection lasts as long as this.
    _events: UnboundedReceiver<ConnectionEvent>,
}

impl Confirmer {
    pub(crate) async fn run(self, mut unconfirmed: UnboundedReceiver<Unconfirmed>) {
        let (mut open, mut batch) = (None, Vec::new());
        loop {
            // Before a batch needs it: with a server that is far away, connecting may take too long. If it fails, the next
            // batch connects again and gets the error.
            if open.is_none() && unconfirmed.is_empty() {
                open = self.connect().await.ok();
            }
            if unconfirmed.recv_many(&mut batch, 256).await == 0 {
                return;
            }
            let confirming = self.confirm(&mut open, &batch);
            let answers = match tokio::time::timeout(self.limit, confirming).await {
                Ok(Ok(answers)) => answers,
                outcome => {
                    open = None;
                    let trouble = match outcome {
                        Ok(Err(trouble)) => trouble,
                        _ => Disconnected::passing(format!("no answer to WAIT within {:?}", self.limit)),
                    };
                    vec![Confirmation::Unknown(trouble); batch.len()]
                }
            };
            let Some(commands) = self.commands.upgrade() else {
                return;
            };
            for (Unconfirmed { id, request }, confirmation) in batch.drain(..).zip(answers) {
                let _ = commands.send(Command::Confirmed { id, token: request.token, confirmation });
            }
        }
    }

    async fn confirm(
        &self,
        open: &mut Option<OpenConnection>,
        batch: &[Unconfirmed],
    ) -> Result<Vec<Confirmation>, Disconnected> {
        if let Some(open) = open {
            // A firewall may have forgotten an idle connection: this leaves time for a new one.
            let was_idle = Moment::now().since(open.heard) >= 2 * self.limit;
            let limit = if was_idle { self.limit / 4 } else { self.limit };
            if let Ok(Ok(values)) = tokio::time::timeout(limit, self.send(open, batch)).await {
                return read(values);
            }
        }
        // There is none yet, or it has ended or is silent.
        let open = open.insert(self.connect().await?);
        let values = self.send(open, batch).await;
        let broke = |error| Disconnected::passing(format!("the connection to Redis broke: {error}"));
        read(values.map_err(broke)?)
    }

    async fn connect(&self) -> Result<OpenConnection, Disconnected> {
        let (pushes, events) = unbounded_channel();
        let connecting = self.node.clone().beside(self.limit, &pushes);
        Ok(OpenConnection { connection: connecting.await?, heard: Moment::now(), _events: events })
    }

    async fn send(
        &self,
        open: &mut OpenConnection,
        batch: &[Unconfirmed],
    ) -> Result<Vec<Value>, redis::RedisError> {
        let mut pipeline = Pipeline::with_capacity(batch.len() + 1);
        for Unconfirmed { request, .. } in batch {
            pipeline.cmd("EVAL").arg(CONFIRM).arg(1);
            pipeline.arg(&*request.name).arg(request.token.value()).arg(in_ms(request.ttl));
        }
        // Zero would wait for ever.
        let millis = in_ms(self.limit / 2).max(1);
        pipeline.cmd("WAIT").arg(self.wanted).arg(millis);
        let values = open.connection.send_packed_commands(&pipeline, 0, pipeline.len()).await?;
        open.heard = Moment::now();
        Ok(values)
    }
}

/// One answer to each write, and the answer to `WAIT`.
fn read(mut values: Vec<Value>) -> Result<Vec<Confirmation>, Disconnected> {
    let reached = match values.pop() {
        Some(Value::Int(reached)) => u32::try_from(reached).unwrap_or(0),
        other => return Err(trouble(other.as_ref())),
    };
    let answers = values.iter().map(|value| match value {
        Value::Int(1) => Confirmation::Reached(reached),
        Value::Int(0) => Confirmation::NotHeld,
        other => Confirmation::Unknown(trouble(Some(other))),
    });
    Ok(answers.collect())
}

fn trouble(value: Option<&Value>) -> Disconnected {
    match value {
        Some(Value::ServerError(error)) => {
            let reply = ErrorReply::of(error);
            Disconnected { reason: reply.to_string().into(), is_permanent: !is_passing(reply.code) }
        }
        _ => Disconnected::passing("the server gave an answer of another kind"),
    }
}
