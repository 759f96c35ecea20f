//! A lock is the caller's only when so many replicas have it, too: a write of our own behind the grant, and `WAIT`.
//!
//! On a connection of its own, because `WAIT` holds up whatever is behind it. What a grant has written is in front of
//! our write in the replication stream, whoever wrote it; without a write, `WAIT` answers for nothing. While one batch
//! waits the next one grows.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, WeakUnboundedSender, unbounded_channel};

use super::decode::is_passing;
use super::node::RedisNode;
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

/// Where to.
struct Kept {
    connection: MultiplexedConnection,
    /// When it last answered.
    heard: Moment,
    /// An encrypted connection lasts as long as this.
    _open: UnboundedReceiver<ConnectionEvent>,
}

impl Confirmer {
    pub(crate) async fn run(self, mut unconfirmed: UnboundedReceiver<Unconfirmed>) {
        let (mut kept, mut batch) = (None, Vec::new());
        loop {
            // Before it is needed: with a server far away, a batch may not have the time for that. Why it cannot be had,
            // the batch that needs it will hear.
            if kept.is_none() && unconfirmed.is_empty() {
                kept = self.connect().await.ok();
            }
            if unconfirmed.recv_many(&mut batch, 256).await == 0 {
                return;
            }
            let confirming = self.confirm(&mut kept, &batch);
            let answers = match tokio::time::timeout(self.limit, confirming).await {
                Ok(Ok(answers)) => answers,
                outcome => {
                    kept = None;
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
        kept: &mut Option<Kept>,
        batch: &[Unconfirmed],
    ) -> Result<Vec<Confirmation>, Disconnected> {
        if let Some(kept) = kept {
            // A firewall may have forgotten an idle connection: the rest of the time is for a new one.
            let was_idle = Moment::now().since(kept.heard) >= 2 * self.limit;
            let patience = if was_idle { self.limit / 4 } else { self.limit };
            if let Ok(Ok(values)) = tokio::time::timeout(patience, self.send(kept, batch)).await {
                return read(values);
            }
        }
        // None yet, or it has ended since, or is silent.
        let kept = kept.insert(self.connect().await?);
        let values = self.send(kept, batch).await;
        let broke = |error| Disconnected::passing(format!("the connection to Redis broke: {error}"));
        read(values.map_err(broke)?)
    }

    async fn connect(&self) -> Result<Kept, Disconnected> {
        let (pushes, open) = unbounded_channel();
        let connecting = self.node.clone().beside(self.limit, &pushes);
        Ok(Kept { connection: connecting.await?, heard: Moment::now(), _open: open })
    }

    async fn send(&self, kept: &mut Kept, batch: &[Unconfirmed]) -> Result<Vec<Value>, redis::RedisError> {
        let mut pipeline = Pipeline::with_capacity(batch.len() + 1);
        for Unconfirmed { request, .. } in batch {
            let ttl = u64::try_from(request.ttl.as_millis()).unwrap_or(u64::MAX);
            pipeline.cmd("EVAL").arg(include_str!("scripts/renew.lua")).arg(1);
            pipeline.arg(&*request.name).arg(request.token.value()).arg(ttl);
        }
        // Zero would be for ever.
        let patience = u64::try_from((self.limit / 2).as_millis()).unwrap_or(u64::MAX).max(1);
        pipeline.cmd("WAIT").arg(self.wanted).arg(patience);
        let values = kept.connection.send_packed_commands(&pipeline, 0, pipeline.len()).await?;
        kept.heard = Moment::now();
        Ok(values)
    }
}

/// One answer to each write, and one to all of them.
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
        Some(Value::ServerError(error)) => Disconnected {
            reason: format!("{} {}", error.code(), error.details().unwrap_or_default()).into(),
            is_permanent: !is_passing(error.code()),
        },
        _ => Disconnected::passing("the server gave an answer of another kind"),
    }
}
