//! Requests as commands: which script, with which keys and arguments.

use super::fields::{EXACTLY, Encoder, LATE, TICKET, UNFENCED, in_ms, is_renewal};
use crate::base::token::Token;
use crate::engine::protocol::{Action, Id, Kind, Listed, Mode, PassedOn, Releases, Request};
use crate::engine::redis::connect::handshake::{NativeDelete, Session};
use crate::engine::redis::scripts::Script;
use crate::engine::redis::wire::command::{Command, write_command, write_word};

/// The form of a request on the wire: a script or plain commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoding {
    Script,
    /// A plain command, which leaves the queue alone.
    Direct,
    /// Three of them: take the lock, draw a fencing token, look whether the lock was held then.
    DirectFenced,
    /// As `Direct`, with a script of one key in the place of the command that draws: it compares the clock with
    /// the floor.
    DirectCompared,
}

impl Encoding {
    /// Returns how many commands are written, each with a reply.
    pub(super) fn commands(self) -> usize {
        match self {
            Self::Script | Self::Direct => 1,
            Self::DirectFenced | Self::DirectCompared => 3,
        }
    }
}

impl Encoder {
    /// The server has lost the script (SCRIPT FLUSH, failover): the next request carries its
    /// source.
    pub(super) fn forget(&mut self, request: &Request) {
        if let Some(script) = self.script(request) {
            self.sent.forget(script);
        }
        match request.action {
            Action::Renew { .. } => self.sent.forget(Script::RenewAll),
            Action::Release => self.sent.forget(Script::Delete),
            _ => {}
        }
    }

    pub(super) fn script(&self, request: &Request) -> Option<Script> {
        let action = request.action;
        let of_its_kind = match &request.kind {
            Kind::Tick(_) => self.script_of_tick(action),
            Kind::Once(_) => self.script_of_once(action),
            Kind::Counted { .. } => self.script_of_counted(action),
            Kind::PassedOn(_) if matches!(action, Action::Renew { .. } | Action::ExpireLater) => {
                Some(Script::PassOn)
            }
            _ => None,
        };
        of_its_kind.or_else(|| match action {
            Action::Release if request.release == Releases::AmongSeveral => Some(Script::Revoke),
            Action::Release if !self.session.queues => Some(Script::GiveUp),
            action => Script::of(action),
        })
    }

    /// Returns how the request is written now.
    pub(super) fn encoding(&self, request: &Request) -> Encoding {
        match request.action {
            Action::Acquire(_) if request.is_direct() && !request.fenced => Encoding::Direct,
            Action::Acquire(_) if request.is_direct() && self.draws_directly => Encoding::DirectFenced,
            Action::Acquire(_) if request.is_direct() && self.may_draw => Encoding::DirectCompared,
            Action::Release if request.is_direct() && self.session.queues => Encoding::Direct,
            _ => Encoding::Script,
        }
    }

    /// Appends the request as the commands of its [encoding](Self::encoding).
    pub(super) fn write(&mut self, request: &Request, encoding: Encoding, into: &mut Vec<u8>) {
        if encoding == Encoding::Script {
            // Enough for most requests, so that the buffer need not grow.
            let inbox = self.session.inbox.len();
            if request.kind.is_counted() {
                self.may_be_counted(&request.name);
            }
            let bytes = 4 * request.name.len() + 2 * inbox + request.token.value().len() + 260;
            let mut command = Command::begin(into, bytes);
            self.write_words(request, &mut command);
            command.end();
            return;
        }
        self.write_direct(request, into);
        if encoding != Encoding::Direct {
            self.write_draw(request, encoding, into);
        }
    }

    /// Behind the command that takes a lock. The answer to the last one tells whether the lock was
    /// held when the number was drawn: the server may execute commands of others in between.
    fn write_draw(&mut self, request: &Request, encoding: Encoding, into: &mut Vec<u8>) {
        let mut command = Command::begin(into, 2 * request.name.len() + 140);
        if encoding == Encoding::DirectCompared {
            self.call(Script::Raise, &mut command);
            command.arg("1");
            self.session.keyspace.write_clock(&mut command, &request.name);
            command.arg(self.floor(request));
            // With a floor, which those behind it need not carry then.
            self.draws_directly = true;
        } else {
            command.arg("INCR");
            self.session.keyspace.write_clock(&mut command, &request.name);
        }
        command.end();
        // No more than tells whether it is this token: the value of a foreign client may be large.
        write_command(into, &["GETRANGE", &request.name, "0", "512"]);
    }

    /// The commonest commands by far.
    fn write_direct(&mut self, request: &Request, into: &mut Vec<u8>) {
        let (name, token) = (&*request.name, request.token.value());
        match (request.action, self.session.native_delete) {
            (Action::Release, None) => {
                let [how, script] = self.how_to_call(Script::Delete);
                write_command(into, &[how, script, "1", name, token]);
            }
            (Action::Release, Some(NativeDelete::DelIfEq)) => write_command(into, &["DELIFEQ", name, token]),
            (Action::Release, Some(NativeDelete::DelEx)) => {
                write_command(into, &["DELEX", name, "IFEQ", token]);
            }
            _ => {
                let ttl = in_ms(request.lasts());
                if self.ttl.0 != ttl {
                    self.ttl = (ttl, ttl.to_string());
                }
                into.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
                write_word(into, name);
                write_word(into, token);
                into.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
                write_word(into, &self.ttl.1);
            }
        }
    }

    fn write_words(&mut self, request: &Request, command: &mut Command<'_>) {
        let Some(script) = self.script(request) else {
            self.write_plain(request, command);
            return;
        };
        self.call(script, command);
        match (script, &request.kind) {
            (Script::Tick | Script::EndTick | Script::GiveUpTick, Kind::Tick(of)) => {
                self.write_tick(request, of, command);
            }
            (Script::AcquireOnce | Script::Finish | Script::FinishAlone, Kind::Once(of)) => {
                self.write_about_once(request, of, command);
            }
            (Script::RenewOnce, Kind::Once(of)) => self.write_renewal_of_once(request, &of.once, command),
            (
                Script::AcquireCounted
                | Script::RenewCounted
                | Script::ExpireCounted
                | Script::ReleaseCounted
                | Script::Downgrade,
                Kind::Counted { limit, .. },
            ) => {
                self.write_counted(script, request, *limit, command);
            }
            (Script::PassOn, Kind::PassedOn(passed_on)) => self.write_passed_on(request, passed_on, command),
            _ => self.write_by_action(request, command),
        }
    }

    /// The keys and arguments of a script that knows no kind but the exclusive one.
    fn write_by_action(&self, request: &Request, command: &mut Command<'_>) {
        let (keyspace, ttl) = (&self.session.keyspace, in_ms(request.lasts()));
        match request.action {
            Action::Announce | Action::Leader => self.write_about_leader(request, command),
            Action::Inspect => {
                command.arg("4").arg(&*request.name);
                keyspace.write_queue(command, &request.name);
                keyspace.write_holders(command, &request.name);
                keyspace.write_permits(command, &request.name);
            }
            Action::SetPermits { permits } => {
                self.write_keys(command, request);
                match permits {
                    Some(permits) => command.arg(permits),
                    None => command.arg(""),
                };
                command.arg("").arg("").arg(&*self.session.inbox).arg("").arg(self.floor(request));
            }
            Action::Vote { .. } | Action::RaiseFence { .. } | Action::Reserve { .. } => {
                self.write_about_the_clock(request, command);
            }
            Action::Acquire(_)
            | Action::AcquireNext { .. }
            | Action::Draw
            | Action::Redeem
            | Action::ForceRelease => self.write_about_the_queue(request, command),
            Action::Release if self.session.queues || request.release == Releases::AmongSeveral => {
                self.write_about_the_queue(request, command);
            }
            Action::Renew { shortens, .. } if !self.may_shorten(shortens) => {
                write_lock(request, command).arg(ttl);
            }
            Action::Renew { .. } | Action::ExpireLater => {
                self.write_keys(command, request);
                command.arg(request.token.value()).arg(ttl);
                command.arg(if request.to_ticket { TICKET } else { EXACTLY });
            }
            Action::Repair { shortens } => {
                write_lock(request, command).arg(ttl).arg(self.may_shorten(shortens).then_some(EXACTLY));
            }
            Action::Watch => {
                write_lock(request, command).arg(request.kind.phase());
            }
            Action::Release => write_tokens(write_lock(request, command), request.other_tokens()),
            Action::WatchHolder
            | Action::WatchLeader
            | Action::LastTick
            | Action::ClearTick
            | Action::Permits
            | Action::TakeAway
            | Action::Record
            // Counted requests alone ask for it.
            | Action::Downgrade { .. }
            | Action::ClearRecord
            | Action::List { .. }
            | Action::Ping { .. } => {
                write_lock(request, command);
            }
        }
    }

    /// The keys and arguments of scripts that draw, reserve or raise fencing tokens on one node.
    fn write_about_the_clock(&self, request: &Request, command: &mut Command<'_>) {
        command.arg("2").arg(&*request.name);
        self.session.keyspace.write_clock(command, &request.name);
        command.arg(request.token.value());
        match request.action {
            Action::Vote { fence, late } => {
                command.arg(in_ms(request.lasts())).arg(fence).arg(late.then_some(LATE));
            }
            Action::RaiseFence { fence } => {
                command.arg(fence);
            }
            Action::Reserve { count } => {
                command.arg(count);
            }
            _ => {}
        }
    }

    /// The keys and arguments of scripts that take a lock, or give it to the next waiter.
    fn write_about_the_queue(&self, request: &Request, command: &mut Command<'_>) {
        self.write_keys(command, request);
        command.arg(request.token.value()).arg(in_ms(request.lasts()));
        let (how, inbox, at_most) = self.how(request.action);
        match request.action {
            Action::Release if self.session.foreign_clients => command.arg(request.releases),
            _ => command.arg(how),
        };
        command.arg(inbox.unwrap_or_default()).arg(at_most.unwrap_or_default());
        // A release has one, too, for the next holder: older data may still have the lock, and
        // not the numbers that came after it.
        command.arg(self.floor(request));
        let others = request.other_tokens();
        if request.fenced {
            command.arg((!others.is_empty()).then_some(""));
        } else {
            command.arg(UNFENCED);
        }
        write_tokens(command, others);
    }

    /// A request without a script.
    fn write_plain(&self, request: &Request, command: &mut Command<'_>) {
        match request.action {
            Action::List { what: Listed::Nodes, .. } => command.arg("INFO"),
            Action::List { cursor, what } => {
                command.arg("SCAN").arg(cursor).arg("MATCH").arg(&*request.name);
                command.arg("COUNT").arg("1000");
                if what == Listed::Locks { command.arg("TYPE").arg("string") } else { command }
            }
            // The key does not exist. A server that takes no writes says so all the same: a replica, a full one.
            Action::Ping { .. } => {
                command.arg("SET").arg(&*request.name).arg("").arg("XX").arg("PX").arg("1")
            }
            Action::LastTick | Action::ClearTick => {
                command.arg(if request.action == Action::LastTick { "GET" } else { "DEL" });
                self.session.keyspace.write_tick(command, &request.name);
                command
            }
            Action::Permits => {
                command.arg("GET");
                self.session.keyspace.write_permits(command, &request.name);
                command
            }
            // An observer watches this key, and below a waiter watches the lock: the server publishes its next change.
            Action::WatchLeader => {
                command.arg("EXISTS");
                self.session.keyspace.write_leader(command, &request.name);
                command
            }
            Action::Record | Action::ClearRecord => {
                command.arg(if request.action == Action::Record { "GET" } else { "DEL" });
                self.session.keyspace.write_once(command, &request.name);
                command
            }
            _ => command.arg("EXISTS").arg(&*request.name),
        };
    }

    /// The keys and arguments of `pass_on.lua`.
    fn write_passed_on(&self, request: &Request, passed_on: &PassedOn, command: &mut Command<'_>) {
        let exactly = match request.action {
            Action::Renew { shortens, .. } => self.may_shorten(shortens),
            _ => true,
        };
        self.write_keys(command, request);
        command.arg(request.token.value()).arg(in_ms(request.ttl));
        command.arg(match exactly {
            true if request.to_ticket => TICKET,
            true => EXACTLY,
            false => "",
        });
        command.arg(&*self.session.inbox);
        match passed_on.place_ttl {
            Some(place_ttl) => command.arg(in_ms(place_ttl)),
            None => command.arg(""),
        };
        write_tokens(command, &passed_on.to);
    }

    /// One call for several locks.
    pub(super) fn acquire_all(&mut self, requests: &[(Id, Request)], into: &mut Vec<u8>) {
        let bytes = |(_, request): &(Id, Request)| 4 * request.name.len() + request.token.value().len() + 80;
        let bytes = requests.iter().map(bytes).sum::<usize>() + self.session.inbox.len() + 160;
        let mut command = Command::begin(into, bytes);
        self.call(Script::AcquireAll, &mut command);
        let Session { keyspace, inbox, .. } = &*self.session;
        command.arg(5 * requests.len() + 1);
        for (_, request) in requests {
            command.arg(&*request.name);
            self.write_queue(&mut command, request);
            keyspace.write_claim(&mut command, &request.name);
            keyspace.write_holders(&mut command, &request.name);
            keyspace.write_permits(&mut command, &request.name);
        }
        for (_, request) in requests.iter().take(1) {
            keyspace.write_clock(&mut command, &request.name);
        }
        command.arg(&**inbox);
        for (_, request) in requests.iter().take(1) {
            command.arg(self.floor(request));
        }
        for (_, request) in requests {
            let at_most = match self.mode(request.action) {
                Mode::Join { at_most } | Mode::JoinAgain { at_most } => at_most,
                Mode::Again | Mode::Rejoin | Mode::OneTry => 0,
            };
            let how = self.word(Self::wanted(request.action));
            command.arg(request.token.value()).arg(in_ms(request.lasts())).arg(how).arg(at_most);
        }
        command.end();
    }

    /// One call for the renewals among `requests`.
    pub(super) fn renew_all(&mut self, requests: &[(Id, Request)], into: &mut Vec<u8>) {
        let renewals =
            || requests.iter().map(|(_, request)| request).filter(|request| is_renewal(request.action));
        let bytes = renewals().map(|request| request.name.len() + request.token.value().len() + 20);
        let mut command = Command::begin(into, 60 + bytes.sum::<usize>());
        self.call(Script::RenewAll, &mut command);
        command.arg(renewals().count());
        for request in renewals() {
            command.arg(&*request.name);
        }
        for request in renewals() {
            command.arg(request.token.value()).arg(in_ms(request.lasts()));
        }
        command.end();
    }
}

/// The keys and arguments of a script that looks at the lock only, or the first of them.
fn write_lock<'c, 'a>(request: &Request, command: &'c mut Command<'a>) -> &'c mut Command<'a> {
    command.arg("1").arg(&*request.name).arg(request.token.value())
}

fn write_tokens(command: &mut Command<'_>, tokens: &[Token]) {
    for token in tokens {
        command.arg(token.value());
    }
}

/// The server notes the keys that the next command reads.
pub(super) const CLIENT_CACHING: [&str; 3] = ["CLIENT", "CACHING", "YES"];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::redis::wire::command::words_of;

    #[test]
    fn a_plain_lock_is_one_command() {
        let mut encoder = Encoder::new(Session::for_a_test());
        for ttl in [30_000, 30_000, 0, 9] {
            let (token, lasts) = (Token::from_value("token"), Duration::from_millis(ttl));
            let action = Action::Acquire(Mode::Again);
            let request = Request::new(action, "lock:k".into(), token, lasts);
            let mut command = Vec::new();
            let request = Request { kind: Kind::Exclusive { direct: true }, fenced: false, ..request };
            encoder.write(&request, encoder.encoding(&request), &mut command);
            assert_eq!(words_of(&command), ["SET", "lock:k", "token", "NX", "PX", &ttl.to_string()]);
        }
    }

    #[test]
    fn a_release_says_for_how_many_it_counts_where_foreign_clients_want_the_lock() {
        let request =
            Request::new(Action::Release, "lock:k".into(), Token::from_value("token"), Duration::ZERO);
        let request = Request { releases: 7, ..request };
        for (foreign_clients, third) in [(true, "7"), (false, "0")] {
            let session = Session { foreign_clients, ..Session::for_a_test() };
            let mut command = Vec::new();
            Encoder::new(session).write(&request, Encoding::Script, &mut command);
            // EVAL, the script, the number of keys, four keys, the token and the ttl come before.
            assert_eq!(words_of(&command).get(9).map(String::as_str), Some(third));
        }
    }

    /// A first waiter that is counted makes the script ask for them in a second request.
    #[test]
    fn a_release_that_is_the_last_request_names_those_that_may_have_the_lock_counted() {
        let request =
            Request::new(Action::Release, "lock:k".into(), Token::from_value("token"), Duration::ZERO);
        for (release, keys) in [(Releases::Usual, "4"), (Releases::Last, "6"), (Releases::AmongSeveral, "6")]
        {
            let request = Request { release, ..request.clone() };
            let mut command = Vec::new();
            Encoder::new(Session::for_a_test()).write(&request, Encoding::Script, &mut command);
            assert_eq!(words_of(&command).get(2).map(String::as_str), Some(keys));
        }
    }

    #[test]
    fn a_shared_renewal_names_each_lock_with_its_token_and_its_ttl() {
        let request = |(id, action): (Id, Action)| {
            let (name, token) = (format!("lock:{id}").into(), Token::from_value(&format!("token {id}")));
            (id, Request::new(action, name, token, Duration::from_secs(id)))
        };
        let renew = Action::Renew { nth: 0, shortens: false };
        let requests = [(1, renew), (1, Action::Watch), (2, renew), (2, Action::Watch)].map(request);
        let mut encoder = Encoder::new(Session::for_a_test());
        let mut command = Vec::new();
        encoder.renew_all(&requests, &mut command);
        let expected = ["2", "lock:1", "lock:2", "token 1", "1000", "token 2", "2000"];
        assert_eq!(words_of(&command).get(2..), Some(&expected.map(str::to_owned)[..]));
    }
}
