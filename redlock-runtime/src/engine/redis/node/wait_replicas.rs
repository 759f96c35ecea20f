//! With `replicas`, a caller gets its lock only after so many replicas have it: a write behind the
//! grant, then `WAIT`. The same for a record that a release has stored: of a body that runs once, and
//! of a tick.
//!
//! It has its own connection, because `WAIT` blocks the commands behind it. `WAIT` covers only the
//! writes of its own connection and those before them in the replication stream, so a renewal is
//! written behind the grant. While one batch waits, the next one grows. A batch is written once,
//! and waited for until the limit of one caller after the other: another write would have the
//! replicas confirm that, too.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, WeakUnboundedSender};

use super::RedisNode;
use crate::base::clock::Moment;
use crate::base::key::{ONCE, TICK};
use crate::base::span::Span;
use crate::base::token::digest;
use crate::engine::command::{Command, Kept, Unconfirmed};
use crate::engine::protocol::{Confirmation, Disconnected, Id, Kind, Request};
use crate::engine::redis::connect::Opening;
use crate::engine::redis::requests::fields::in_ms;
use crate::engine::redis::scripts::{EVALUATED, Script};
use crate::engine::redis::wire::command::Pipeline;
use crate::engine::redis::wire::error_reply::ErrorReply;
use crate::engine::redis::wire::error_reply::is_passing;
use crate::engine::redis::wire::exchange::{Exchange, Interrupted};
use crate::engine::redis::wire::value::Value;

/// Confirms until the engine ends.
pub(crate) struct Confirmer {
    pub(crate) node: RedisNode,
    pub(crate) wanted: u32,
    /// For one batch, with a new connection if it needs one.
    pub(crate) limit: Duration,
    pub(crate) commands: WeakUnboundedSender<Command>,
}

/// A lock or a record that its replicas do not have yet, and until when they have time.
struct Pending {
    id: Id,
    request: Request,
    until: Moment,
    kept: Option<Kept>,
}

struct OpenConnection {
    exchange: Exchange,
    /// When the server last answered.
    heard: Moment,
    /// The batch is written, and only waited for.
    has_written: bool,
}

impl Confirmer {
    pub(crate) async fn run(self, mut unconfirmed: UnboundedReceiver<Unconfirmed>) {
        let (mut open, mut new, mut batch) = (None, Vec::new(), Vec::new());
        let mut began = Moment::now();
        loop {
            if batch.is_empty() {
                // Before a batch needs it: with a server that is far away, connecting may take too
                // long. If it fails, the next batch connects again and gets the error.
                if open.is_none() && unconfirmed.is_empty() {
                    open = self.connect().await.ok();
                }
                if unconfirmed.recv_many(&mut new, 256).await == 0 {
                    return;
                }
                began = Moment::now();
                batch.extend(new.drain(..).map(|unconfirmed| self.pending(began, unconfirmed)));
                if let Some(open) = &mut open {
                    open.has_written = false;
                }
            }
            let left = self.limit.saturating_sub(Moment::now().since(began));
            let confirming = self.confirm(&mut open, &batch);
            let answers = match tokio::time::timeout(left, confirming).await {
                Ok(Ok(answers)) => answers,
                outcome => {
                    open = None;
                    let trouble = match outcome {
                        Ok(Err(trouble)) => trouble,
                        _ => Disconnected::passing(format!("no answer to WAIT within {}", Span(self.limit))),
                    };
                    vec![Confirmation::Unknown(trouble); batch.len()]
                }
            };
            let Some(commands) = self.commands.upgrade() else {
                return;
            };
            let now = Moment::now();
            for (pending, confirmation) in std::mem::take(&mut batch).into_iter().zip(answers) {
                let is_short =
                    matches!(confirmation, Confirmation::Reached(reached) if reached < self.wanted);
                if is_short && pending.until > now {
                    batch.push(pending);
                } else if let Some(kept) = pending.kept {
                    kept.confirmed(&pending.request, self.wanted, confirmation);
                } else {
                    let Pending { id, request: Request { token, .. }, .. } = pending;
                    let _ = commands.send(Command::Confirmed { id, token, confirmation });
                }
            }
        }
    }

    /// The replicas have time until the limit of the caller, for half of the time of a batch at
    /// most. They have a tenth of it at least, because a shorter wait is one try.
    fn pending(&self, now: Moment, Unconfirmed { id, request, gives_up_at, kept }: Unconfirmed) -> Pending {
        let (soonest, latest) = (now.after(self.limit / 10), now.after(self.limit / 2));
        Pending { id, request, until: gives_up_at.unwrap_or(latest).clamp(soonest, latest), kept }
    }

    async fn confirm(
        &self,
        open: &mut Option<OpenConnection>,
        batch: &[Pending],
    ) -> Result<Vec<Confirmation>, Disconnected> {
        // Kept only if it answers: what comes late would be taken for the answers to the next
        // batch.
        if let Some(mut earlier) = open.take() {
            // A firewall may have forgotten an idle connection: this leaves time for a new one.
            let was_idle = Moment::now().since(earlier.heard) >= 2 * self.limit;
            let limit = if was_idle { self.limit / 4 } else { self.limit };
            if let Ok(Ok(values)) = tokio::time::timeout(limit, self.send(&mut earlier, batch)).await {
                *open = Some(earlier);
                return read(values, batch);
            }
        }
        // There is none yet, or it has ended or is silent.
        let mut new = self.connect().await?;
        let values = self.send(&mut new, batch).await;
        let values = values
            .map_err(|Interrupted { failure, .. }| Disconnected::passing(new.exchange.reason(&failure)))?;
        *open = Some(new);
        read(values, batch)
    }

    fn connect(&self) -> Opening<'_, OpenConnection, Disconnected> {
        Box::pin(async {
            let exchange = self.node.clone().beside(self.limit).await?;
            Ok(OpenConnection { exchange, heard: Moment::now(), has_written: false })
        })
    }

    async fn send(&self, open: &mut OpenConnection, batch: &[Pending]) -> Result<Vec<Value>, Interrupted> {
        let mut pipeline = Pipeline::default();
        for Pending { request, .. } in batch.iter().filter(|_| !open.has_written) {
            let (name, token) = (&*request.name, request.token.value());
            match &request.kind {
                Kind::Once(_) if request.keeps_a_record() => {
                    pipeline.add(&[
                        "EVAL",
                        Script::ConfirmRecord.source(EVALUATED),
                        "1",
                        &format!("{name}{ONCE}"),
                        &digest(token),
                    ]);
                }
                Kind::Tick(_) if request.keeps_a_record() => {
                    pipeline.add(&[
                        "EVAL",
                        Script::ConfirmRecord.source(EVALUATED),
                        "1",
                        &format!("{name}{TICK}"),
                        token,
                    ]);
                }
                Kind::Counted { phase: phase @ 1.., .. } => {
                    pipeline.add(&[
                        "EVAL",
                        Script::ConfirmCounted.source(EVALUATED),
                        "1",
                        name,
                        &phase.to_string(),
                    ]);
                }
                _ => {
                    let lasts = in_ms(request.lasts()).to_string();
                    pipeline.add(&["EVAL", Script::Confirm.source(EVALUATED), "1", name, token, &lasts]);
                }
            }
        }
        // Zero would wait forever.
        let now = Moment::now();
        let next = batch.iter().map(|pending| pending.until.since(now)).min();
        let millis = in_ms(next.unwrap_or_default()).max(1);
        pipeline.add(&["WAIT", &self.wanted.to_string(), &millis.to_string()]);
        let values = open.exchange.ask(&pipeline).await?;
        (open.heard, open.has_written) = (Moment::now(), true);
        Ok(values)
    }
}

/// One answer to each write, unless that has been read before, and the answer to `WAIT`.
fn read(mut values: Vec<Value>, batch: &[Pending]) -> Result<Vec<Confirmation>, Disconnected> {
    let reached = match values.pop() {
        Some(Value::Int(reached)) => u32::try_from(reached).unwrap_or(0),
        other => return Err(trouble(other.as_ref(), "")),
    };
    if values.is_empty() {
        return Ok(vec![Confirmation::Reached(reached); batch.len()]);
    }
    let answers = values.iter().zip(batch).map(|(value, Pending { request, .. })| match value {
        Value::Int(1) => Confirmation::Reached(reached),
        Value::Int(0) => Confirmation::NotHeld,
        other => Confirmation::Unknown(trouble(Some(other), request.token.secret())),
    });
    Ok(answers.collect())
}

fn trouble(value: Option<&Value>, secret: &str) -> Disconnected {
    match value {
        Some(Value::ServerError(error)) => {
            let reply = ErrorReply::of(error).without(secret);
            Disconnected { reason: reply.to_string().into(), is_permanent: !is_passing(&reply.code) }
        }
        _ => Disconnected::passing("the server gave an answer of another kind"),
    }
}
