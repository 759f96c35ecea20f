//! The replies and pushes of a server, as the protocol's types.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::{Holder, InFront};
use crate::base::key::is_side_name;
use crate::base::limit::Limit;
use crate::base::owner::Owner;
use crate::base::token::{self, MARK, Token};
use crate::engine::protocol::{
    Action, ConnectionEvent, Counted, Inspection, LastTick, NotRun, Place, Push, PushKind, Record, Redirect,
    Refusal, Reply, RunRecord, ServerTime, Verdict,
};
use crate::engine::redis::scripts::{Dialect, Script};
use crate::engine::redis::wire::error_reply::{ErrorReply, is_unknown};
use crate::engine::redis::wire::keyspace::Keyspace;
use crate::engine::redis::wire::value::{self, ServerError, Value};
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
            Value::Int(1),
        )
        | (Action::WatchLeader, Value::Int(_))
        | (Action::Ping { .. }, Value::Nil | Value::Okay) => Reply::Done,
        (Action::Watch, Value::Int(left)) if left > 0 => {
            Reply::HeldFor { left: Duration::from_millis(left.unsigned_abs()) }
        }
        (
            Action::Renew { .. }
            | Action::ExpireLater
            | Action::Release
            | Action::TakeAway
            | Action::Reserve { .. }
            | Action::Draw
            | Action::Announce
            | Action::ClearRecord
            | Action::ClearTick
            | Action::Repair { .. }
            | Action::RaiseFence { .. }
            | Action::Watch,
            Value::Int(0),
        )
        | (Action::WatchHolder, Value::Int(1)) => Reply::NotHeld,
        (Action::Repair { .. }, Value::Int(2))
        | (Action::Watch, Value::Int(-1))
        | (Action::WatchHolder, Value::Int(0)) => Reply::Free,
        (Action::Release | Action::Renew { .. } | Action::ExpireLater, Value::Int(2)) => {
            Reply::Refused(Refusal::Unfinished)
        }
        (Action::Reserve { .. } | Action::Draw, Value::Int(last)) if last > 0 => {
            Reply::Reserved { last: last.unsigned_abs() }
        }
        (Action::Vote { fence, .. }, Value::Int(clock)) if clock > 0 && clock.unsigned_abs() >= fence => {
            Reply::Voted { clock: clock.unsigned_abs() }
        }
        // Zero for a request that is not fenced.
        (Action::Acquire(mode), Value::Int(fence)) if fence >= 0 && mode.has_waited() => {
            Reply::Acquire(Verdict::Claimed { fence: fence.unsigned_abs() })
        }
        (Action::Redeem, Value::Int(none @ (-1 | -2))) => {
            Reply::Acquire(Verdict::NoTicket { is_free: none == -2 })
        }
        (Action::Acquire(_) | Action::Redeem, Value::Int(fence)) if fence >= 0 => {
            Reply::Acquire(Verdict::Granted { fence: fence.unsigned_abs() })
        }
        (Action::Acquire(_), Value::Array(parts)) if script == Some(Script::Tick) => {
            read_of_tick(action, parts, dialect)
        }
        (Action::Acquire(_) | Action::Vote { .. }, Value::Array(parts)) => read_busy(&parts),
        (Action::LastTick, value) => read_last_tick(&value),
        (Action::Inspect | Action::ForceRelease | Action::Leader, Value::Array(parts)) => {
            read_found(action, &parts)
        }
        (Action::List { .. }, Value::Array(parts)) => read_page(&parts),
        (Action::Record, Value::Nil) => Reply::Recorded(None),
        (Action::Record, Value::BulkString(record)) => read_run(&record),
        (_, other) => nonsense(&other),
    }
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

/// True for the value of a lock that this token holds, with a mark or without.
fn is_of(value: &[u8], token: &Token) -> bool {
    let behind = value.strip_prefix(token.value().as_bytes());
    behind.is_some_and(|behind| behind.is_empty() || behind == MARK.as_bytes())
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
            holder.inside = counted.as_ref().map_or(0, |counted| counted.inside);
            let waiters = u32::try_from(*waiters).unwrap_or(u32::MAX);
            // The least limit changes while the same callers hold the lock.
            let phase = counted_parts(value).map(|[_, phase]| [COUNTED, phase].concat());
            let value = phase.map_or_else(|| Token::naming(value), |phase| Token::naming(phase.as_bytes()));
            Reply::Found(Some(Inspection { holder, value, waiters, queue, record, counted }))
        }
        other => nonsense(&Value::Array(other.to_vec())),
    }
}

/// Those that have a lock with this value, `%holders|least limit|phase`: how many they are, then of
/// each the member and what is left of its lease.
fn read_counted(value: &[u8], parts: &[Value]) -> Option<Counted> {
    let [limit, _] = counted_parts(value)?;
    let [Value::Int(inside), holders @ ..] = parts else { return None };
    let holder = |pair: &[Value]| match pair {
        [member, Value::Int(left)] => {
            let left = u64::try_from(*left).ok().map(Duration::from_millis)?;
            Some((token_in(member), left))
        }
        _ => None,
    };
    Some(Counted {
        limit: Limit::of(limit.parse().ok()?),
        inside: u32::try_from(*inside).ok()?,
        holders: holders.chunks(2).filter_map(holder).collect(),
    })
}

/// The token of a member of the holders. One that a foreign client has written is named, and has no owner.
fn token_in(member: &Value) -> Token {
    let token = text(member).and_then(|member| Some(Token::from_value(member.split_once('|')?.0)));
    let bytes = if let Value::BulkString(bytes) = member { bytes } else { &[][..] };
    token.filter(Token::is_ours).unwrap_or_else(|| Token::naming(bytes))
}

/// What stands behind the prefix in the value of a counted lock, and behind that.
fn counted_parts(value: &[u8]) -> Option<[&str; 2]> {
    let (limit, rest) = std::str::from_utf8(value).ok()?.strip_prefix(COUNTED)?.split_once('|')?;
    Some([limit, rest])
}

/// How many have the lock, in the answer to a request for it: `%holders|least limit|phase|number`.
/// Else 0.
fn inside(value: &[u8]) -> u32 {
    let number = counted_parts(value).and_then(|[_, rest]| rest.split_once('|')?.1.parse().ok());
    number.unwrap_or(0)
}

/// One that another kind of client has written counts as none.
fn read_record(parts: &[Value]) -> Option<Record> {
    let [term, since, words] = parts else { return None };
    let since = Duration::from_millis(number(since)?);
    Some(Record { term: number(term)?, since, text: text(words)?.to_owned() })
}

fn read_page(parts: &[Value]) -> Reply {
    match parts {
        [cursor, Value::Array(names)] => match number(cursor) {
            Some(cursor) => {
                let names = names.iter().filter_map(text).filter(|name| !is_side_name(name));
                Reply::Page { cursor, names: names.map(str::to_owned).collect() }
            }
            None => nonsense(cursor),
        },
        other => nonsense(&Value::Array(other.to_vec())),
    }
}

/// Of a member of the queue.
fn owner(member: &str) -> Option<Owner> {
    let (token, _) = member.split_once('|')?;
    token::owner_of(token)
}

/// The first waiter, by its member of the queue.
fn in_front_of(member: &str) -> InFront {
    let number = member.splitn(4, '|').nth(3).and_then(|kind| kind.strip_prefix('n')?.parse().ok());
    InFront { owner: owner(member), limit: number.map_or(Limit::ONE, Limit::of) }
}

/// The record of a body that runs once, as `once.lua` writes it.
fn read_run(record: &[u8]) -> Reply {
    let mut parts = record.splitn(6, |byte| *byte == b'|');
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let (fingerprint, state, since, _runner, owner) = (text(), text(), text(), text(), text());
    let since = since.and_then(|since| since.parse().ok()).map(Duration::from_millis);
    match (fingerprint, state, since, owner, parts.next()) {
        (Some(fingerprint), Some(state @ ("s" | "d")), Some(since), Some(owner), Some(result)) => {
            Reply::Recorded(Some(RunRecord {
                since,
                owner: runner(owner),
                fingerprint: fingerprint.into(),
                result: (state == "d").then(|| result.into()),
            }))
        }
        _ => Reply::Refused(Refusal::Permanent(NO_RECORD.into())),
    }
}

fn runner(owner: &str) -> Option<Owner> {
    (!owner.is_empty()).then(|| Owner::read(owner))
}

const NO_RECORD: &str = "the key beside this lock that has the record of its body is not of this library: delete it, or choose another prefix";

/// From the value of the lock, its PTTL, and when it was granted.
fn holder(value: &[u8], pttl: i64, granted: &Value) -> Holder {
    Holder {
        owner: std::str::from_utf8(value).ok().and_then(token::owner_of),
        granted: number(granted).and_then(NonZeroU64::new),
        expires_in: u64::try_from(pttl).ok().map(Duration::from_millis),
        usual_hold: None,
        inside: inside(value),
        limit: counted_parts(value).and_then(|[limit, _]| Some(Limit::of(limit.parse().ok()?))),
        call: None,
        waiter: None,
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
        [Value::Int(2), Value::Int(waiters)] => {
            Reply::Acquire(Verdict::QueueFull { waiters: u32::try_from(*waiters).unwrap_or(u32::MAX) })
        }
        other => nonsense(&Value::Array(other.to_vec())),
    }
}

/// The tick that a request is for, and behind it the answer for its lock, or what becomes of the
/// tick.
fn read_of_tick(action: Action, parts: Vec<Value>, dialect: Dialect) -> Reply {
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
        None => match read(action, None, answer, dialect) {
            Reply::Acquire(verdict) => verdict,
            other => return other,
        },
    };
    Reply::Acquire(Verdict::OfTick { at_ms, verdict: Box::new(verdict) })
}

/// The record of the last tick. It says nobody where that tick is still to be run.
fn read_last_tick(record: &Value) -> Reply {
    let parts = text(record).and_then(|record| record.split_once('|'));
    // Behind the token stands when its caller asked.
    let parts = parts.map(|(at_ms, rest)| (at_ms, rest.split_once('|').map_or(rest, |(token, _)| token)));
    match (record, parts.and_then(|(at_ms, token)| Some((at_ms.parse().ok()?, token)))) {
        (Value::Nil, _) | (_, Some((_, ""))) => Reply::LastTick(None),
        (_, Some((at_ms, token))) => Reply::LastTick(Some(LastTick { at_ms, by: token::owner_of(token) })),
        (_, None) => nonsense(record),
    }
}

/// What `acquire_once.lua` says of a body that does not run.
fn why_not_run(parts: &[Value]) -> Option<NotRun> {
    match parts {
        [Value::Int(5), _] => Some(NotRun::Reused),
        [Value::Int(6), _, Value::BulkString(result)] => Some(NotRun::Done(result.as_slice().into())),
        [Value::Int(7), _, since, owner] => {
            let since = Duration::from_millis(number(since)?);
            Some(NotRun::Interrupted { owner: runner(text(owner)?), since })
        }
        _ => None,
    }
}

/// Lua would round numbers above 2^53, so scripts return large ones as text.
fn number(value: &Value) -> Option<u64> {
    text(value)?.parse().ok()
}

/// A reply that the script cannot return: it may answer another request, so that nobody knows what
/// the server has done of this one.
pub(super) fn nonsense(value: &Value) -> Reply {
    // The value itself may hold a token: only its kind is told.
    let kind = match value {
        Value::Array(_) => "an array",
        Value::BulkString(_) | Value::SimpleString(_) => "a string",
        Value::Int(_) => "a number",
        Value::Nil => "nil",
        _ => "a value",
    };
    Reply::Refused(Refusal::OutcomeUnknown(
        format!("the server answered a lock script with {kind} that the script cannot return").into(),
    ))
}

/// The start of the value of a counted lock.
const COUNTED: &str = "%holders|";

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

/// A push about a lock outside our keyspace is dropped: any client may have published it.
pub(crate) fn read_push(
    kind: value::PushKind,
    data: &[Value],
    keyspace: &Keyspace,
) -> Option<ConnectionEvent> {
    match (kind, data) {
        (value::PushKind::SUnsubscribe, _) => Some(ConnectionEvent::InboxMoved),
        (value::PushKind::Message | value::PushKind::SMessage, [_, payload]) => {
            decode_push(text(payload)?).filter(|push| keyspace.holds(&push.name)).map(ConnectionEvent::Push)
        }
        (value::PushKind::Invalidate, [Value::Array(keys)]) => Some(ConnectionEvent::Changed(Some(
            keys.iter().filter_map(text).map(|name| keyspace.changed(name)).collect(),
        ))),
        (value::PushKind::Invalidate, _) => Some(ConnectionEvent::Changed(None)),
        _ => None,
    }
}

pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

/// `granted|token|fencing token|server time|mark and followers|lock` and the like, as acquire.lua,
/// give.lua, tell.lua and release.lua publish it.
fn decode_push(text: &str) -> Option<Push> {
    let mut parts = text.splitn(6, '|');
    let (kind, token) = (parts.next()?, Token::from_value(parts.next()?));
    let (first, second, third) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    let at = ServerTime(second);
    let mut followers = "";
    let kind = match kind {
        "granted" => {
            // Behind the mark, as there are no followers without it.
            let behind = third.strip_prefix(MARK);
            followers = behind.unwrap_or_default();
            PushKind::Granted { fence: first, at, marked: behind.is_some() }
        }
        "next" => PushKind::Next { claim: Duration::from_millis(first), at },
        "free" => PushKind::LeftFree,
        "gone" => PushKind::PlaceLost,
        "done" => PushKind::Done,
        _ => return None,
    };
    Some(Push { token, name: parts.next()?.into(), kind, followers: followers.into(), is_undercut: false })
}

/// True for errors of a server that is starting, failing over, busy or cannot save: the request may
/// succeed later.
pub(crate) fn is_passing(code: &str) -> bool {
    matches!(
        code,
        "LOADING"
            | "BUSY"
            | "MASTERDOWN"
            | "READONLY"
            | "TRYAGAIN"
            | "CLUSTERDOWN"
            | "NOREPLICAS"
            | "MISCONF"
    )
}

/// The key holds a value that is not a string.
pub(super) fn is_of_another_type(error: &ServerError) -> bool {
    ErrorReply::of(error).code == "WRONGTYPE"
}
