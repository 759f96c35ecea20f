//! Requests for locks that several hold together, and what servers say of those.

use std::time::Duration;

use super::fields::{EXACTLY, Encoder, UNFENCED, counted_parts, in_ms, is_central, taken};
use crate::base::limit::Limit;
use crate::base::token::Token;
use crate::engine::protocol::{Action, Counted, Request};
use crate::engine::redis::scripts::Script;
use crate::engine::redis::wire::command::Command;
use crate::engine::redis::wire::value::{Value, text};

/// The server has refused a command of counted locks: a script tries them all before it changes
/// anything.
pub(super) const TRIES: &str = "try";

impl Encoder {
    pub(super) fn script_of_counted(&self, action: Action) -> Option<Script> {
        match action {
            Action::Acquire(_) => Some(Script::AcquireCounted),
            Action::Renew { shortens, .. } if !self.may_shorten(shortens) => Some(Script::RenewCounted),
            Action::Renew { .. } | Action::ExpireLater => Some(Script::ExpireCounted),
            Action::Release => Some(Script::ReleaseCounted),
            Action::Downgrade { .. } => Some(Script::Downgrade),
            _ => None,
        }
    }

    /// The keys and arguments of `acquire_counted.lua` and the other scripts of counted locks.
    pub(super) fn write_counted(
        &self,
        script: Script,
        request: &Request,
        limit: Limit,
        command: &mut Command<'_>,
    ) {
        if let Script::RenewCounted = script {
            command.arg("2").arg(&*request.name);
            self.session.keyspace.write_holders(command, &request.name);
            command.arg(request.token.value()).arg(in_ms(request.lasts()));
            command.arg("").arg(&*self.session.inbox);
            command.arg(format_args!("n{limit}"));
            return;
        }
        self.write_keys(command, request);
        command.arg(request.token.value()).arg(in_ms(request.lasts()));
        let (how, _, at_most) = self.how(request.action);
        if let Action::Downgrade { place_ttl } = request.action {
            command.arg(request.kind.phase().unwrap_or_default());
            command.arg(&*self.session.inbox).arg(in_ms(place_ttl));
            command.arg(self.floor(request));
            command.arg(format_args!("n{limit}"));
            command.arg(if request.fenced { "" } else { UNFENCED });
            return;
        }
        match request.action {
            Action::Renew { .. } | Action::ExpireLater => command.arg(EXACTLY),
            Action::Release if self.session.foreign_clients => command.arg(request.releases),
            _ => command.arg(how),
        };
        // Also of one try: it names the member.
        command.arg(&*self.session.inbox).arg(at_most.unwrap_or_default());
        command.arg(self.floor(request));
        command.arg(format_args!("n{limit}"));
        if let (Script::AcquireCounted, true) = (script, self.session.may_not_count) {
            command.arg(TRIES);
        }
    }
}

/// Those that have a lock with this value, `%holders|least limit|phase`, and behind it how many they
/// are, and how many permits they take, where that is more; how many they are, then of each the member
/// and what is left of its lease.
pub(super) fn read_counted(value: &[u8], parts: &[Value]) -> Option<Counted> {
    let [limit, _] = counted_parts(value)?;
    let [Value::Int(inside), holders @ ..] = parts else { return None };
    let inside = u32::try_from(*inside).ok()?;
    let holder = |pair: &[Value]| match pair {
        [member, Value::Int(left)] => {
            let left = u64::try_from(*left).ok().map(Duration::from_millis)?;
            Some((token_in(member), taken_by(member), left))
        }
        _ => None,
    };
    Some(Counted {
        limit: Limit::of(limit.parse().ok()?).taking(taken(value).max(inside)),
        is_central: is_central(value),
        inside,
        holders: holders.chunks(2).filter_map(holder).collect(),
    })
}

/// Returns how many permits a member of the holders takes.
fn taken_by(member: &Value) -> u32 {
    let limit = text(member).and_then(|member| Limit::parse(member.split('|').nth(1)?));
    limit.map_or(1, Limit::take)
}

/// The token of a member of the holders. One that a foreign client has written is named, and has no owner.
pub(super) fn token_in(member: &Value) -> Token {
    let token = text(member).and_then(|member| Some(Token::from_value(member.split_once('|')?.0)));
    let bytes = if let Value::BulkString(bytes) = member { bytes } else { &[][..] };
    token.filter(Token::is_ours).unwrap_or_else(|| Token::naming(bytes))
}
