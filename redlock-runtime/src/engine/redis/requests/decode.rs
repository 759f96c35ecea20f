//! The replies of a server, as the protocol's types.

use std::sync::Arc;
use std::time::Duration;

use super::counted::read_counted;
use super::fields::{COUNTED, counted_parts, holder, in_front_of, is_of, nonsense, number, owner};
use super::leader::read_record;
use super::once::{read_run, why_not_run};
use super::tick::{read_last_tick, read_of_tick};
use crate::base::key::is_side_name;
use crate::base::token::Token;
use crate::engine::protocol::{
    Action, Inspection, Listed, Place, Redirect, Refusal, Reply, ServerTime, Verdict, takes_too_many,
};
use crate::engine::redis::scripts::{Dialect, Script};
use crate::engine::redis::wire::error_reply::{ErrorReply, is_of_another_type, is_passing, is_unknown};
use crate::engine::redis::wire::value::{ServerError, Value, text};
use crate::engine::slots::Slot;

/// `script`: the one that the request has called.
pub(super) fn read(action: Action, script: Option<Script>, value: Value, dialect: Dialect) -> Reply {
    match (action, value) {
        // These scripts read only the lock.
        (
            Action::Renew { .. }
            | Action::ExpireLater
            | Action::Repair { .. }
            | Action::Watch
            | Action::Redeem,
            Value::ServerError(error),
        ) if is_of_another_type(&error) => Reply::NotHeld,
        (_, Value::ServerError(error)) => {
            let script = script.map(|script| script.source(dialect));
            Reply::Refused(refusal_in(&error, script))
        }
        (_, Value::Int(number)) => read_number(action, number),
        (Action::Ping { .. }, Value::Nil | Value::Okay) => Reply::Done,
        (Action::Acquire(_), Value::Array(parts)) if script == Some(Script::Tick) => {
            read_of_tick(parts, |answer| read(action, None, answer, dialect))
        }
        (Action::Acquire(_) | Action::Downgrade { .. } | Action::Vote { .. }, Value::Array(parts)) => {
            read_busy(&parts)
        }
        (Action::SetPermits { .. } | Action::Permits, value) => read_permits(&value),
        (Action::LastTick, value) => read_last_tick(&value),
        (Action::Inspect | Action::ForceRelease | Action::Leader, Value::Array(parts)) => {
            read_found(action, &parts)
        }
        (Action::List { what, .. }, Value::Array(parts)) => read_page(&parts, what),
        (Action::List { what: Listed::Nodes, .. }, value) => read_node(value),
        (Action::Record, Value::Nil) => Reply::Recorded(None),
        (Action::Record, Value::BulkString(record)) => read_run(&record),
        (_, other) => nonsense(&other),
    }
}

/// Returns what a script or a command says with a number.
#[inline]
fn read_number(action: Action, number: i64) -> Reply {
    match (action, number) {
        (
            Action::Renew { .. }
            | Action::ExpireLater
            | Action::Release
            | Action::TakeAway
            | Action::Announce
            | Action::ClearRecord
            | Action::ClearTick
            | Action::Repair { .. }
            | Action::RaiseFence { .. },
            1,
        )
        | (Action::WatchLeader, _) => Reply::Done,
        (
            Action::Renew { .. }
            | Action::ExpireLater
            | Action::Release
            | Action::TakeAway
            | Action::Reserve { .. }
            | Action::Draw
            | Action::Downgrade { .. }
            | Action::Announce
            | Action::ClearRecord
            | Action::ClearTick
            | Action::Repair { .. }
            | Action::RaiseFence { .. }
            | Action::Watch,
            0,
        )
        | (Action::WatchHolder, 1) => Reply::NotHeld,
        (Action::Repair { .. }, 2) | (Action::Watch, -1) | (Action::WatchHolder, 0) => Reply::Free,
        (Action::Release | Action::Renew { .. } | Action::ExpireLater, 2) => {
            Reply::Refused(Refusal::Unfinished)
        }
        (Action::Redeem, -2 | -1) => Reply::Acquire(Verdict::NoTicket { is_free: number == -2 }),
        _ => read_quantity(action, number).unwrap_or_else(|| nonsense(&Value::Int(number))),
    }
}

/// A fencing token, or a time.
#[inline]
fn read_quantity(action: Action, number: i64) -> Option<Reply> {
    let number = u64::try_from(number).ok()?;
    Some(match action {
        Action::Watch => Reply::HeldFor { left: Duration::from_millis(number) },
        Action::Reserve { .. } | Action::Draw | Action::Downgrade { .. } => Reply::Reserved { last: number },
        Action::Vote { fence, .. } if number >= fence.max(1) => Reply::Voted { clock: number },
        // Zero for a request that is not fenced.
        Action::Acquire(mode) if mode.has_waited() => Reply::Acquire(Verdict::Claimed { fence: number }),
        Action::Acquire(_) | Action::Redeem => Reply::Acquire(Verdict::Granted { fence: number }),
        _ => return None,
    })
}

/// The reply to a plain command, which leaves the queue alone.
pub(super) fn read_direct(action: Action, value: Value) -> Reply {
    match (action, value) {
        (Action::Acquire(_), Value::Okay) => Reply::Acquire(Verdict::Granted { fence: 0 }),
        (Action::Release, Value::Int(1)) => Reply::Done,
        (Action::Acquire(_), Value::Nil) | (Action::Release, Value::Int(0)) => {
            Reply::Refused(Refusal::Contended)
        }
        (Action::Release, Value::ServerError(error)) if is_of_another_type(&error) => {
            Reply::Refused(Refusal::Contended)
        }
        (action, error @ Value::ServerError(_)) => {
            read(action, None, error, Dialect { sharded: false, reads_parts: true })
        }
        (_, other) => nonsense(&other),
    }
}

/// The replies to the plain commands that take a lock with a fencing token. `least`: of the tokens
/// that need no script.
///
/// The server may execute commands of others between these. A lock that is still held after the
/// number was drawn was held all the time: no other holder can have a number that is larger. A
/// number that was drawn for nothing leaves a gap, and does no harm.
pub(super) fn read_direct_fenced(
    action: Action,
    [set, number, value]: [Value; 3],
    token: &Token,
    least: u64,
) -> Reply {
    if let (Value::Okay, Value::ServerError(error)) = (&set, &value)
        && (error.code() == "NOPERM" || is_unknown(error.details().unwrap_or_default()))
    {
        return Reply::Refused(Refusal::NoLook);
    }
    let is_held = match &value {
        Value::BulkString(value) => is_of(value, token),
        // One of another type, or none, is not this token.
        Value::Nil | Value::ServerError(_) => false,
        _ => return nonsense(&value),
    };
    match (set, number) {
        (Value::Okay, Value::Int(fence)) if is_held && fence.unsigned_abs() >= least && fence > 0 => {
            Reply::Acquire(Verdict::Granted { fence: fence.unsigned_abs() })
        }
        (Value::Okay, Value::Int(_) | Value::ServerError(_)) => Reply::Refused(Refusal::NoFence),
        (set @ (Value::Nil | Value::ServerError(_)), Value::Int(_) | Value::ServerError(_)) => {
            read_direct(action, set)
        }
        (Value::Okay | Value::Nil | Value::ServerError(_), number) => nonsense(&number),
        (set, _) => nonsense(&set),
    }
}

fn read_found(action: Action, parts: &[Value]) -> Reply {
    match parts {
        [Value::Int(3)] => Reply::Refused(Refusal::Unfinished),
        [Value::Nil, ..] => Reply::Found(None),
        [Value::BulkString(value), Value::Int(pttl), Value::Int(waiters), granted, members @ ..] => {
            let record = match members {
                [Value::Array(parts)] if action == Action::Leader => read_record(parts).map(Box::new),
                _ => None,
            };
            let queue = match members {
                [Value::Array(members), ..] if action != Action::Leader => {
                    members.iter().map(|member| owner(text(member)?)).collect()
                }
                _ => Vec::new(),
            };
            let counted = match members {
                [_, Value::Array(parts)] => read_counted(value, parts).map(Box::new),
                _ => None,
            };
            let mut holder = holder(value, *pttl, granted);
            if let Some(counted) = &counted {
                (holder.inside, holder.limit) = (counted.inside, Some(counted.limit));
            }
            let waiters = u32::try_from(*waiters).unwrap_or(u32::MAX);
            // The least limit changes while the same callers hold the lock.
            let parts = counted.as_ref().and_then(|_| counted_parts(value));
            let phase = parts.and_then(|[_, rest]| rest.split('|').next());
            let phase = phase.map(|phase| [COUNTED, phase].concat());
            let value = phase.map_or_else(|| Token::naming(value), |phase| Token::naming(phase.as_bytes()));
            Reply::Found(Some(Inspection { holder, value, waiters, queue, record, counted }))
        }
        other => nonsense(&Value::Array(other.to_vec())),
    }
}

fn read_page(parts: &[Value], what: Listed) -> Reply {
    match parts {
        [cursor, Value::Array(names)] => match number(cursor) {
            Some(cursor) => {
                let is_listed = |name: &&str| what == Listed::Keys || !is_side_name(name);
                let names = names.iter().filter_map(text).filter(is_listed);
                Reply::Page { cursor, names: names.map(str::to_owned).collect() }
            }
            None => nonsense(cursor),
        },
        other => nonsense(&Value::Array(other.to_vec())),
    }
}

/// The central limit of a lock.
fn read_permits(value: &Value) -> Reply {
    match value {
        Value::Nil => Reply::Permits(None),
        Value::BulkString(_) => match number(value).and_then(|permits| u32::try_from(permits).ok()) {
            Some(permits) => Reply::Permits(Some(permits)),
            None => Reply::Refused(Refusal::Permanent(NO_LIMIT.into())),
        },
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(3)] => Reply::Refused(Refusal::Unfinished),
            [Value::Int(0), Value::Int(before)] => {
                Reply::Permits(u32::try_from(*before).ok().filter(|before| *before > 0))
            }
            _ => nonsense(value),
        },
        other => nonsense(other),
    }
}

const NO_LIMIT: &str = "the key of its central limit has a value that is no number, which another client has written: set \
                        or clear the limit";

fn read_node(info: Value) -> Reply {
    match info {
        Value::SimpleString(info) => Reply::Page { cursor: 0, names: vec![info] },
        Value::BulkString(_) => match text(&info) {
            Some(info) => Reply::Page { cursor: 0, names: vec![info.to_owned()] },
            None => nonsense(&info),
        },
        other => nonsense(&other),
    }
}

fn read_busy(parts: &[Value]) -> Reply {
    match parts {
        [Value::Int(0), Value::BulkString(value), Value::Int(pttl), now, Value::Int(in_front), granted] => {
            let mut holder = holder(value, *pttl, granted);
            if let Value::Array(members) = granted
                && let [inside, waiter] = members.as_slice()
            {
                holder.owner = text(inside).and_then(owner);
                holder.waiter =
                    text(waiter).filter(|waiter| !waiter.is_empty()).map(in_front_of).map(Box::new);
            }
            let place = u32::try_from(*in_front).ok().zip(number(now));
            Reply::Acquire(Verdict::Busy {
                holder,
                place: place.map(|(in_front, now)| Place { in_front, at: ServerTime(now) }),
            })
        }
        [Value::Int(3)] => Reply::Refused(Refusal::Unfinished),
        [Value::Int(5..=7), Value::Int(kept), ..] => match why_not_run(parts) {
            Some(why) => Reply::Acquire(Verdict::NotRun { why, kept: *kept == 1 }),
            None => nonsense(&Value::Array(parts.to_vec())),
        },
        [Value::Int(10), Value::Int(take), Value::Int(central)] => {
            let number = |number: &i64| u32::try_from(*number).unwrap_or(u32::MAX);
            Reply::Refused(takes_too_many(number(take), number(central)))
        }
        [Value::Int(2), Value::Int(waiters)] => {
            Reply::Acquire(Verdict::QueueFull { waiters: u32::try_from(*waiters).unwrap_or(u32::MAX) })
        }
        other => nonsense(&Value::Array(other.to_vec())),
    }
}

const IN_A_CLUSTER: &str = "this server is part of a Cluster (CROSSSLOT): its address starts with redis+cluster:// instead of redis://";

pub(super) fn refusal(error: &ServerError) -> Refusal {
    refusal_in(error, None)
}

/// `script`: its source, if the error comes from one.
fn refusal_in(error: &ServerError, script: Option<&str>) -> Refusal {
    let reply = ErrorReply::of(error);
    let words = || Arc::<str>::from(reply.to_string());
    match &*reply.code {
        "NOSCRIPT" => Refusal::NoScript,
        code @ ("MOVED" | "ASK") => match redirect(code == "ASK", error.details().unwrap_or_default()) {
            Some(redirect) => Refusal::Moved(redirect),
            None => Refusal::Transient(words()),
        },
        code if is_passing(code) => Refusal::Transient(words()),
        "CROSSSLOT" => Refusal::Permanent(IN_A_CLUSTER.into()),
        _ => Refusal::Permanent(script.map_or_else(words, |source| reply.with_the_command(source).into())),
    }
}

/// `slot host:port`
fn redirect(once: bool, details: &str) -> Option<Redirect> {
    let (slot, to) = details.split_once(' ')?;
    Some(Redirect { slot: Slot::new(slot.parse().ok()?)?, to: to.into(), once })
}
