//! Requests for locks of ticks, and the records of those.

use super::fields::{Encoder, in_ms, nonsense, number};
use crate::base::tick::AHEAD;
use crate::base::token;
use crate::engine::protocol::{Action, LastTick, Reply, Request, TickEffect, TickRequest, Verdict};
use crate::engine::redis::scripts::Script;
use crate::engine::redis::wire::command::Command;
use crate::engine::redis::wire::value::{Value, text};

impl Encoder {
    pub(super) fn script_of_tick(&self, action: Action) -> Option<Script> {
        match action {
            Action::Acquire(_) => Some(Script::Tick),
            Action::Release => Some(if self.session.queues { Script::EndTick } else { Script::GiveUpTick }),
            _ => None,
        }
    }

    /// The keys and arguments of `tick.lua` and `end_tick.lua`.
    pub(super) fn write_tick(&self, request: &Request, tick: &TickRequest, command: &mut Command<'_>) {
        let keyspace = &self.session.keyspace;
        command.arg("7").arg(&*request.name);
        self.write_queue(command, request);
        keyspace.write_clock(command, &request.name);
        keyspace.write_claim(command, &request.name);
        keyspace.write_holders(command, &request.name);
        keyspace.write_permits(command, &request.name);
        keyspace.write_tick(command, &request.name);
        command.arg(request.token.value()).arg(in_ms(request.ttl));
        let (how, inbox, at_most) = self.how(request.action);
        match request.action {
            Action::Release if self.session.foreign_clients => command.arg(request.releases),
            _ => command.arg(how),
        };
        command.arg(inbox.unwrap_or_default()).arg(at_most.unwrap_or_default());
        command.arg(self.floor(request));
        // It draws a fencing token.
        command.arg("");
        let effect = match tick.effect {
            TickEffect::Look => "",
            TickEffect::Record => "record",
            TickEffect::Undo => "undo",
        };
        if request.action == Action::Release {
            command.arg(effect);
        }
        match tick.tick.at_ms {
            Some(at_ms) => command.arg(at_ms),
            None => command.arg(""),
        };
        let (keeps, age) = (in_ms(tick.tick.keeps()), in_ms(self.now.since(tick.asked)));
        if request.action == Action::Release {
            command.arg(keeps).arg(age);
        } else {
            command.arg(tick.tick.every_ms).arg(age).arg(keeps).arg(in_ms(AHEAD)).arg(effect);
        }
    }
}

/// The tick that a request is for, and behind it the answer for its lock, or what becomes of the
/// tick.
pub(super) fn read_of_tick(parts: Vec<Value>, read: impl FnOnce(Value) -> Reply) -> Reply {
    let Ok([name, answer]) = <[Value; 2]>::try_from(parts) else {
        return nonsense(&Value::Array(Vec::new()));
    };
    let Some(at_ms) = number(&name) else { return nonsense(&name) };
    let verdict = match &answer {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(8), last, by] => number(last)
                .map(|last_ms| Verdict::TickTaken { last_ms, by: text(by).and_then(token::owner_of) }),
            [Value::Int(9), Value::Int(is_ahead)] => Some(Verdict::TickUnknown { is_ahead: *is_ahead == 1 }),
            _ => None,
        },
        _ => None,
    };
    let verdict = match verdict {
        Some(verdict) => verdict,
        None => match read(answer) {
            Reply::Acquire(verdict) => verdict,
            other => return other,
        },
    };
    Reply::Acquire(Verdict::OfTick { at_ms, verdict: Box::new(verdict) })
}

/// The record of the last tick. It says nobody where that tick is still to be run.
pub(super) fn read_last_tick(record: &Value) -> Reply {
    let parts = text(record).and_then(|record| record.split_once('|'));
    // Behind the token stands when its caller asked.
    let parts = parts.map(|(at_ms, rest)| (at_ms, rest.split_once('|').map_or(rest, |(token, _)| token)));
    match (record, parts.and_then(|(at_ms, token)| Some((at_ms.parse().ok()?, token)))) {
        (Value::Nil, _) | (_, Some((_, ""))) => Reply::LastTick(None),
        (_, Some((at_ms, token))) => Reply::LastTick(Some(LastTick { at_ms, by: token::owner_of(token) })),
        (_, None) => nonsense(record),
    }
}
