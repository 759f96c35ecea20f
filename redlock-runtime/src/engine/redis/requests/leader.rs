//! What leaders announce.

use std::time::Duration;

use super::fields::{Encoder, in_ms, number};
use crate::engine::protocol::{Action, Kind, Record, Request};
use crate::engine::redis::wire::command::Command;
use crate::engine::redis::wire::value::{Value, text};

impl Encoder {
    /// The keys and arguments of `announce.lua` and `leader.lua`.
    pub(super) fn write_about_leader(&self, request: &Request, command: &mut Command<'_>) {
        command.arg("2").arg(&*request.name);
        self.session.keyspace.write_leader(command, &request.name);
        if request.action == Action::Leader {
            return;
        }
        command.arg(request.token.value());
        match &request.kind {
            Kind::Leader(announcement) => {
                command.arg(in_ms(announcement.lasts));
                command.arg(in_ms(announcement.led_for)).arg(announcement.term);
                command.arg(&*announcement.text)
            }
            _ => command.arg("0"),
        };
    }
}

/// One that another kind of client has written counts as none.
pub(super) fn read_record(parts: &[Value]) -> Option<Record> {
    let [term, since, words] = parts else { return None };
    let since = Duration::from_millis(number(since)?);
    Some(Record { term: number(term)?, since, text: text(words)?.to_owned() })
}
