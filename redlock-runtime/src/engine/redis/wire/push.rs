//! The pushes of a server: what it tells without a request.

use std::time::Duration;

use super::keyspace::Keyspace;
use super::value::{self, Value, text};
use crate::base::token::{MARK, Token};
use crate::engine::protocol::{ConnectionEvent, Push, PushKind, ServerTime};

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

/// `granted|token|fencing token|server time|mark and followers|lock` and the like, as acquire.lua,
/// `grant_one.lua`, `notify_waiters.lua`, `release.lua` and `revoke.lua` publish it.
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
        "revoked" => PushKind::Revoked,
        _ => return None,
    };
    Some(Push { token, name: parts.next()?.into(), kind, followers: followers.into(), is_undercut: false })
}
