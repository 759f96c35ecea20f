//! Requests for locks of bodies that run once, and the records of those.

use std::time::Duration;

use super::fields::{EXACTLY, Encoder, in_ms, number};
use crate::base::owner::Owner;
use crate::base::token::digest;
use crate::engine::protocol::{Action, NotRun, Once, OnceRequest, Refusal, Reply, Request, Run, RunRecord};
use crate::engine::redis::scripts::Script;
use crate::engine::redis::wire::command::Command;
use crate::engine::redis::wire::value::{Value, text};

/// The kind of a caller whose body runs once.
pub(super) const ONCE: &str = "once";

impl Encoder {
    pub(super) fn script_of_once(&self, action: Action) -> Option<Script> {
        match action {
            Action::Acquire(_) => Some(Script::AcquireOnce),
            Action::Release => Some(if self.session.queues { Script::Finish } else { Script::FinishAlone }),
            Action::Renew { .. } | Action::ExpireLater => Some(Script::RenewOnce),
            _ => None,
        }
    }

    /// The keys and arguments of `acquire_once.lua`, `finish.lua` and `finish_alone.lua`.
    pub(super) fn write_about_once(&self, request: &Request, of: &OnceRequest, command: &mut Command<'_>) {
        let OnceRequest { once, run } = of;
        self.write_keys(command, request);
        command.arg(request.token.value()).arg(in_ms(request.ttl));
        let (how, _, at_most) = self.how(request.action);
        match request.action {
            Action::Release if self.session.foreign_clients => command.arg(request.releases),
            _ => command.arg(how),
        };
        command.arg(&*self.session.inbox).arg(at_most.unwrap_or_default());
        command.arg(self.floor(request));
        command.arg(ONCE).arg(&*once.fingerprint).arg(in_ms(once.lasts));
        command.arg(&*digest(request.token.value()));
        if let Action::Acquire(_) = request.action {
            command.arg(if once.reruns { "" } else { "error" });
            if let Some(result) = &once.ignores {
                command.arg(format_args!("{}", sha1_smol::Sha1::from(result).digest()));
            }
            return;
        }
        match run {
            Run::Undone => command.arg("undone"),
            Run::Interrupted => command.arg("interrupted"),
            Run::Done(result) => command.arg("done").bytes(result),
        };
    }

    /// The keys and arguments of `renew_once.lua`. Without those of the queue, unless they are needed:
    /// while a slot of a Cluster moves, what names a key that does not exist is refused.
    pub(super) fn write_renewal_of_once(&self, request: &Request, once: &Once, command: &mut Command<'_>) {
        let exactly = match request.action {
            Action::Renew { shortens, .. } => self.may_shorten(shortens),
            _ => true,
        };
        if exactly {
            self.write_keys(command, request);
        } else {
            command.arg("2").arg(&*request.name);
            self.session.keyspace.write_once(command, &request.name);
        }
        command.arg(request.token.value()).arg(in_ms(request.ttl));
        command.arg(if exactly { EXACTLY } else { "" });
        command.arg(in_ms(once.lasts)).arg(&*digest(request.token.value()));
    }
}

/// The record of a body that runs once, as `once.lua` writes it.
pub(super) fn read_run(record: &[u8]) -> Reply {
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

pub(super) fn runner(owner: &str) -> Option<Owner> {
    (!owner.is_empty()).then(|| Owner::read(owner))
}

pub(super) const NO_RECORD: &str = "the key beside this lock that has the record of its body is not of this library: delete it, or choose another prefix";

/// Returns what `acquire_once.lua` says of a body that does not run.
pub(super) fn why_not_run(parts: &[Value]) -> Option<NotRun> {
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
