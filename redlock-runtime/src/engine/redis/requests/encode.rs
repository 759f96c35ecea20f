//! Requests as commands: which script, with which keys and arguments.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::host::HashSet;
use crate::base::tick::AHEAD;
use crate::base::token::digest;
use crate::engine::protocol::{
    Action, Id, Mode, Once, OnceRequest, PassedOn, Releases, Request, Run, TickEffect, TickRequest,
};
use crate::engine::redis::connect::fence_floor::{ABOVE_ALL, FenceFloor, Floor};
use crate::engine::redis::connect::handshake::{LateRequests, NativeDelete, Session};
use crate::engine::redis::scripts::{Script, SentScripts};
use crate::engine::redis::wire::command::{Command, write_command, write_word};

/// The third argument with which renew.lua and repair.lua may shorten a lease.
const EXACTLY: &str = "exactly";

/// The last argument of a request that draws no fencing token.
const UNFENCED: &str = "unfenced";

/// The same of one whose body runs once.
const ONCE: &str = "once";

/// Of a caller that asked a while ago: the time of its grant is not the one in its token.
const LATE: &str = "late";

/// The server has refused a command of counted locks: a script tries them all before it changes
/// anything.
const TRIES: &str = "try";

/// By what a request is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Script,
    /// A plain command, which leaves the queue alone.
    Direct,
    /// Three of them: take the lock, draw a fencing token, look whether the lock was held then.
    DirectFenced,
}

impl Way {
    /// How many commands, each with a reply.
    pub(super) fn commands(self) -> usize {
        match self {
            Self::Script | Self::Direct => 1,
            Self::DirectFenced => 3,
        }
    }
}

/// Encodes the requests of one connection.
pub(super) struct Encoder {
    pub(super) session: Box<Session>,
    sent: SentScripts,
    /// So high the clock of fencing tokens should be, for the requests that are being encoded.
    estimate: u64,
    /// The largest number that was seen is the floor in any case.
    is_behind: bool,
    /// Fencing tokens may be drawn without a script: the clock is at the time.
    may_draw: bool,
    /// They are, because one of these requests carries the floor, or none need.
    draws_directly: bool,
    /// The ttl of the last plain `SET` in milliseconds, and its digits: most calls have the same.
    ttl: (u64, String),
    /// Locks that may be counted. A script for another one does not name those that have it: that
    /// makes it a twentieth longer.
    counted: HashSet<Arc<str>>,
}

/// So many of them are kept in mind.
const MOST_COUNTED: usize = 4_096;

impl Encoder {
    pub(super) fn new(session: Session) -> Self {
        Self {
            session: Box::new(session),
            sent: SentScripts::default(),
            estimate: ABOVE_ALL,
            is_behind: false,
            may_draw: false,
            draws_directly: false,
            ttl: (0, "0".to_owned()),
            counted: HashSet::default(),
        }
    }

    /// For the requests that follow: each script that may draw a fencing token carries the floor.
    /// Where the clock `is_due` for a comparison, the first request that could be direct is a script.
    pub(super) fn set_floor(&mut self, fences: &FenceFloor, now: Moment, may_draw: bool) {
        (self.estimate, self.is_behind) = (fences.estimate(now), fences.is_behind());
        // The look at the lock behind the number is a GETRANGE.
        self.may_draw = may_draw && self.session.reads_parts;
        self.draws_directly = self.may_draw && !fences.is_due(now);
    }

    /// The floor of fencing tokens for this request.
    fn floor(&self, request: &Request) -> Floor {
        let seen = self.session.seen.largest(&self.session.keyspace, &request.name);
        match request.action {
            _ if self.is_behind && seen > 0 => Floor::Seen(seen),
            // A ticket may come from a process that has seen larger fencing tokens: its clock is at
            // the time at least.
            Action::Redeem => Floor::Estimate(ABOVE_ALL),
            _ => Floor::above(self.estimate, seen),
        }
    }

    /// Access rules forbid `GETRANGE` now.
    pub(super) fn reads_no_parts(&mut self) {
        if self.session.reads_parts {
            self.session.reads_parts = false;
            // The scripts are others.
            self.sent = SentScripts::default();
        }
    }

    /// From now on each script is sent as its source.
    pub(super) fn send_sources(&mut self) {
        self.sent.send_sources();
    }

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

    /// The action that the server is asked for. Without hand-off, a place in a queue is of no use.
    pub(super) fn action(&self, action: Action) -> Action {
        match action {
            Action::Acquire(mode) => Action::Acquire(self.allowed(mode)),
            action => action,
        }
    }

    /// How a call for several locks asks for one of them.
    pub(super) fn mode(&self, action: Action) -> Mode {
        self.allowed(Self::wanted(action))
    }

    fn wanted(action: Action) -> Mode {
        match action {
            Action::Acquire(mode) | Action::AcquireNext { mode, .. } => mode,
            _ => Mode::OneTry,
        }
    }

    fn allowed(&self, mode: Mode) -> Mode {
        if self.session.abilities.hands_over { mode } else { Mode::OneTry }
    }

    /// A late request must not shorten the lock: then the server keeps it for longer than the
    /// holder counts on.
    fn may_shorten(&self, shortens: bool) -> bool {
        shortens && self.session.late_requests == LateRequests::Impossible
    }

    /// The server may count those that have this lock: the next request names them.
    pub(super) fn may_be_counted(&mut self, name: &Arc<str>) {
        if !self.counted.contains(name) {
            if self.counted.len() == MOST_COUNTED {
                self.counted.clear();
            }
            self.counted.insert(Arc::clone(name));
        }
    }

    pub(super) fn script(&self, request: &Request) -> Option<Script> {
        match request.action {
            Action::Acquire(_) if request.tick().is_some() => Some(Script::Tick),
            Action::Release if request.tick().is_some() => {
                Some(if self.session.queues { Script::EndTick } else { Script::GiveUpTick })
            }
            Action::Acquire(_) if request.once().is_some() => Some(Script::AcquireOnce),
            Action::Release if request.once().is_some() && !self.session.queues => Some(Script::FinishAlone),
            Action::Release if request.once().is_some() => Some(Script::Finish),
            Action::Renew { .. } | Action::ExpireLater if request.once().is_some() => Some(Script::RenewOnce),
            Action::Acquire(_) if request.limit.is_counted() => Some(Script::Enter),
            Action::Renew { shortens, .. } if request.limit.is_counted() => {
                Some(if self.may_shorten(shortens) { Script::End } else { Script::Stay })
            }
            Action::ExpireLater if request.limit.is_counted() => Some(Script::End),
            Action::Release if request.limit.is_counted() => Some(Script::Leave),
            Action::Release if !self.session.queues && request.release != Releases::AmongSeveral => {
                Some(Script::GiveUp)
            }
            Action::Renew { .. } | Action::ExpireLater if request.passed_on.is_some() => Some(Script::PassOn),
            action => Script::of(action),
        }
    }

    /// By what the request is sent now.
    pub(super) fn way(&self, request: &Request) -> Way {
        match request.action {
            Action::Acquire(_) if request.direct && !request.fenced => Way::Direct,
            Action::Acquire(_) if request.direct && self.draws_directly => Way::DirectFenced,
            Action::Release if request.direct && self.session.queues => Way::Direct,
            _ => Way::Script,
        }
    }

    /// How a caller asks or releases, its inbox, and a number, as `docs/design.md` says of the
    /// scripts.
    fn how(&self, action: Action) -> (&'static str, Option<&str>, Option<u32>) {
        let inbox = Some(&*self.session.inbox);
        match self.action(action) {
            Action::Acquire(mode @ (Mode::Join { at_most } | Mode::JoinAgain { at_most })) => {
                (self.word(mode), inbox, Some(at_most))
            }
            Action::Acquire(mode @ (Mode::Again | Mode::Rejoin)) => (self.word(mode), inbox, None),
            Action::Release | Action::Redeem => ("0", inbox, None),
            _ => (self.word(Self::wanted(action)), None, None),
        }
    }

    /// Without hand-off, one that has waited says so: the time in its token is not that of its
    /// grant.
    fn word(&self, mode: Mode) -> &'static str {
        match mode {
            Mode::OneTry => "0",
            Mode::Join { .. } if !self.session.abilities.hands_over => "0",
            _ if !self.session.abilities.hands_over => LATE,
            Mode::Join { .. } => "join",
            Mode::JoinAgain { .. } => "join_again",
            Mode::Again => "again",
            Mode::Rejoin => "rejoin",
        }
    }

    /// Appends the request as the commands of its [way](Self::way).
    pub(super) fn write(&mut self, request: &Request, way: Way, into: &mut Vec<u8>) {
        if way == Way::Script {
            // With a floor, which those behind it need not carry then.
            self.draws_directly |= self.may_draw && request.direct && request.action.takes();
            // Enough for most requests, so that the buffer need not grow.
            let inbox = self.session.inbox.len();
            if request.limit.is_counted() {
                self.may_be_counted(&request.name);
            }
            let bytes = 4 * request.name.len() + 2 * inbox + request.token.value().len() + 260;
            let mut command = Command::begin(into, bytes);
            self.write_words(request, &mut command);
            command.end();
            return;
        }
        self.write_direct(request, into);
        if way == Way::DirectFenced {
            self.write_draw(request, into);
        }
    }

    /// Behind the command that takes a lock. The answer to the last one tells whether the lock was
    /// held when the number was drawn: the server may execute commands of others in between.
    fn write_draw(&self, request: &Request, into: &mut Vec<u8>) {
        let mut command = Command::begin(into, 2 * request.name.len() + 80);
        command.arg("INCR");
        self.session.keyspace.write_clock(&mut command, &request.name);
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
        let (keyspace, ttl) = (&self.session.keyspace, in_ms(request.lasts()));
        if self.write_of_a_kind(script, request, command) {
            return;
        }
        match request.action {
            Action::Announce | Action::Leader => self.write_about_leader(request, command),
            Action::Inspect => {
                command.arg("3").arg(&*request.name);
                keyspace.write_queue(command, &request.name);
                keyspace.write_holders(command, &request.name);
            }
            Action::Repair { shortens } => {
                command.arg("1").arg(&*request.name).arg(request.token.value()).arg(ttl);
                command.arg(self.may_shorten(shortens).then_some(EXACTLY));
            }
            Action::Renew { shortens, .. } if !self.may_shorten(shortens) => {
                command.arg("1").arg(&*request.name).arg(request.token.value()).arg(ttl);
            }
            Action::Renew { .. } | Action::ExpireLater => {
                self.write_keys(command, request);
                command.arg(request.token.value()).arg(ttl).arg(EXACTLY);
            }
            Action::Vote { fence, late } => {
                command.arg("2").arg(&*request.name);
                keyspace.write_clock(command, &request.name);
                command.arg(request.token.value()).arg(ttl).arg(fence).arg(late.then_some(LATE));
            }
            Action::Watch => {
                command.arg("1").arg(&*request.name).arg(request.token.value());
                command.arg((request.phase > 0).then_some(request.phase));
            }
            Action::WatchHolder
            | Action::WatchLeader
            | Action::LastTick
            | Action::ClearTick
            | Action::TakeAway
            | Action::Record
            | Action::ClearRecord
            | Action::List { .. }
            | Action::Ping { .. } => {
                command.arg("1").arg(&*request.name).arg(request.token.value());
            }
            Action::Release if !self.session.queues && request.release != Releases::AmongSeveral => {
                command.arg("1").arg(&*request.name).arg(request.token.value());
                for token in request.passed_on.iter().flat_map(|passed_on| &passed_on.to) {
                    command.arg(token.value());
                }
            }
            Action::RaiseFence { fence } => {
                command.arg("2").arg(&*request.name);
                keyspace.write_clock(command, &request.name);
                command.arg(request.token.value()).arg(fence);
            }
            Action::Reserve { count } => {
                command.arg("2").arg(&*request.name);
                keyspace.write_clock(command, &request.name);
                command.arg(request.token.value()).arg(count);
            }
            Action::Acquire(_)
            | Action::AcquireNext { .. }
            | Action::Release
            | Action::Draw
            | Action::Redeem
            | Action::ForceRelease => {
                self.write_keys(command, request);
                command.arg(request.token.value()).arg(ttl);
                let (how, inbox, at_most) = self.how(request.action);
                match request.action {
                    Action::Release if self.session.foreign_clients => command.arg(request.releases),
                    _ => command.arg(how),
                };
                command.arg(inbox.unwrap_or_default()).arg(at_most.unwrap_or_default());
                // A release has one, too, for the next holder: older data may still have the lock, and
                // not the numbers that came after it.
                command.arg(self.floor(request));
                match &request.passed_on {
                    None => command.arg((!request.fenced).then_some(UNFENCED)),
                    Some(_) => command.arg(if request.fenced { "" } else { UNFENCED }),
                };
                for token in request.passed_on.iter().flat_map(|passed_on| &passed_on.to) {
                    command.arg(token.value());
                }
            }
        }
    }

    /// The keys and arguments of scripts for locks of a kind of their own, if this is one.
    fn write_of_a_kind(&self, script: Script, request: &Request, command: &mut Command<'_>) -> bool {
        if let (Script::Tick | Script::EndTick | Script::GiveUpTick, Some(tick)) = (script, request.tick()) {
            self.write_tick(request, tick, command);
            return true;
        }
        match (script, request.once(), &request.passed_on) {
            (Script::Enter | Script::Stay | Script::End | Script::Leave, ..) => {
                self.write_counted(script, request, command);
            }
            (Script::AcquireOnce | Script::Finish | Script::FinishAlone, Some(once), _) => {
                self.write_about_once(request, once, command);
            }
            (Script::RenewOnce, Some(once), _) => self.write_renewal_of_once(request, &once.once, command),
            (Script::PassOn, _, Some(passed_on)) => self.write_passed_on(request, passed_on, command),
            _ => return false,
        }
        true
    }

    /// A request without a script.
    fn write_plain(&self, request: &Request, command: &mut Command<'_>) {
        match request.action {
            Action::List { cursor } => {
                command.arg("SCAN").arg(cursor).arg("MATCH").arg(&*request.name);
                command.arg("COUNT").arg("1000").arg("TYPE").arg("string")
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
            // Of an observer, and below of a waiter: the server tells when this changes.
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

    /// The keys and arguments of `acquire_once.lua`, `finish.lua` and `finish_alone.lua`.
    fn write_about_once(&self, request: &Request, of: &OnceRequest, command: &mut Command<'_>) {
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
    fn write_renewal_of_once(&self, request: &Request, once: &Once, command: &mut Command<'_>) {
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

    /// The keys and arguments of `announce.lua` and `leader.lua`.
    fn write_about_leader(&self, request: &Request, command: &mut Command<'_>) {
        command.arg("2").arg(&*request.name);
        self.session.keyspace.write_leader(command, &request.name);
        if request.action == Action::Leader {
            return;
        }
        command.arg(request.token.value());
        match request.announcement() {
            Some(announcement) => {
                command.arg(in_ms(announcement.lasts));
                command.arg(in_ms(announcement.led_for)).arg(announcement.term);
                command.arg(&*announcement.text)
            }
            None => command.arg("0"),
        };
    }

    /// Those of a script that knows the queue, and how many they are.
    fn write_keys(&self, command: &mut Command<'_>, request: &Request) {
        let keyspace = &self.session.keyspace;
        let names_holders = match request.action {
            Action::ForceRelease => true,
            _ if request.once().is_some() => true,
            // A first waiter that is counted makes the script ask for them.
            Action::Release if request.release != Releases::Usual => true,
            Action::Acquire(_) | Action::AcquireNext { .. } | Action::Release => {
                request.limit.is_counted() || self.counted.contains(&request.name)
            }
            _ => request.limit.is_counted(),
        };
        let keys = 4 + u32::from(names_holders) + u32::from(request.once().is_some());
        command.arg(keys).arg(&*request.name);
        self.write_queue(command, request);
        keyspace.write_clock(command, &request.name);
        keyspace.write_claim(command, &request.name);
        if names_holders {
            keyspace.write_holders(command, &request.name);
        }
        if request.once().is_some() {
            keyspace.write_once(command, &request.name);
        }
    }

    /// The keys and arguments of `enter.lua`, `stay.lua`, `end.lua` and `leave.lua`.
    fn write_counted(&self, script: Script, request: &Request, command: &mut Command<'_>) {
        let number = request.limit.number();
        if let Script::Stay = script {
            command.arg("2").arg(&*request.name);
            self.session.keyspace.write_holders(command, &request.name);
            command.arg(request.token.value()).arg(in_ms(request.lasts()));
            command.arg("").arg(&*self.session.inbox);
            command.arg(format_args!("n{number}"));
            return;
        }
        self.write_keys(command, request);
        command.arg(request.token.value()).arg(in_ms(request.lasts()));
        let (how, _, at_most) = self.how(request.action);
        match request.action {
            Action::Renew { .. } | Action::ExpireLater => command.arg(EXACTLY),
            Action::Release if self.session.foreign_clients => command.arg(request.releases),
            _ => command.arg(how),
        };
        // Also of one try: it names the member.
        command.arg(&*self.session.inbox).arg(at_most.unwrap_or_default());
        command.arg(self.floor(request));
        command.arg(format_args!("n{number}"));
        if let (Script::Enter, true) = (script, self.session.may_not_count) {
            command.arg(TRIES);
        }
    }

    /// The keys and arguments of `tick.lua` and `end_tick.lua`.
    fn write_tick(&self, request: &Request, tick: &TickRequest, command: &mut Command<'_>) {
        let keyspace = &self.session.keyspace;
        command.arg("6").arg(&*request.name);
        self.write_queue(command, request);
        keyspace.write_clock(command, &request.name);
        keyspace.write_claim(command, &request.name);
        keyspace.write_holders(command, &request.name);
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
        let (keeps, age) = (in_ms(tick.tick.keeps()), in_ms(tick.age));
        if request.action == Action::Release {
            command.arg(keeps).arg(age);
        } else {
            command.arg(tick.tick.every_ms).arg(age).arg(keeps).arg(in_ms(AHEAD)).arg(effect);
        }
    }

    /// A queue that access rules keep from this connection is none to it: it takes a free lock past
    /// those who wait.
    fn write_queue(&self, command: &mut Command<'_>, request: &Request) {
        match request.action {
            action if (action.takes() || request.limit.is_counted()) && !self.session.queues => {
                self.session.keyspace.write_no_queue(command, &request.name);
            }
            _ => self.session.keyspace.write_queue(command, &request.name),
        }
    }

    /// The keys and arguments of `pass_on.lua`.
    fn write_passed_on(&self, request: &Request, passed_on: &PassedOn, command: &mut Command<'_>) {
        let exactly = match request.action {
            Action::Renew { shortens, .. } => self.may_shorten(shortens),
            _ => true,
        };
        self.write_keys(command, request);
        command.arg(request.token.value()).arg(in_ms(request.ttl));
        command.arg(if exactly { EXACTLY } else { "" }).arg(&*self.session.inbox);
        match passed_on.place_ttl {
            Some(place_ttl) => command.arg(in_ms(place_ttl)),
            None => command.arg(""),
        };
        for token in &passed_on.to {
            command.arg(token.value());
        }
    }

    /// One call for several locks.
    pub(super) fn acquire_all(&mut self, requests: &[(Id, Request)], into: &mut Vec<u8>) {
        let bytes = |(_, request): &(Id, Request)| 4 * request.name.len() + request.token.value().len() + 80;
        let bytes = requests.iter().map(bytes).sum::<usize>() + self.session.inbox.len() + 160;
        let mut command = Command::begin(into, bytes);
        self.call(Script::AcquireAll, &mut command);
        let Session { keyspace, inbox, .. } = &*self.session;
        command.arg(4 * requests.len() + 1);
        for (_, request) in requests {
            command.arg(&*request.name);
            self.write_queue(&mut command, request);
            keyspace.write_claim(&mut command, &request.name);
            keyspace.write_holders(&mut command, &request.name);
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

    /// The start of a call.
    fn call(&mut self, script: Script, command: &mut Command<'_>) {
        let [how, which] = self.how_to_call(script);
        command.arg(how).arg(which);
    }

    fn how_to_call(&mut self, script: Script) -> [&'static str; 2] {
        // A force-release always carries its source: sent again for want of it, it would come
        // behind later requests.
        if !self.sent.set(script) || matches!(script, Script::ForceRelease) {
            ["EVAL", script.source(self.session.dialect())]
        } else {
            ["EVALSHA", script.hash(self.session.dialect())]
        }
    }
}

/// The server notes the keys that the next command reads.
pub(super) const CLIENT_CACHING: [&str; 3] = ["CLIENT", "CACHING", "YES"];

pub(super) fn is_renewal(action: Action) -> bool {
    matches!(action, Action::Renew { .. })
}

pub(crate) fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::Token;
    use crate::engine::redis::wire::command::words_of;

    #[test]
    fn a_plain_lock_is_one_command() {
        let mut encoder = Encoder::new(Session::for_a_test());
        for ttl in [30_000, 30_000, 0, 9] {
            let (token, lasts) = (Token::from_value("token"), Duration::from_millis(ttl));
            let action = Action::Acquire(Mode::Again);
            let request = Request::new(action, "lock:k".into(), token, lasts);
            let mut command = Vec::new();
            let request = Request { direct: true, fenced: false, ..request };
            encoder.write(&request, encoder.way(&request), &mut command);
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
            Encoder::new(session).write(&request, Way::Script, &mut command);
            // EVAL, the script, the number of keys, four keys, the token and the ttl come before.
            assert_eq!(words_of(&command).get(9).map(String::as_str), Some(third));
        }
    }

    /// A first waiter that is counted makes the script ask for them in a second request.
    #[test]
    fn a_release_that_is_the_last_request_names_those_that_may_have_the_lock_counted() {
        let request =
            Request::new(Action::Release, "lock:k".into(), Token::from_value("token"), Duration::ZERO);
        for (release, keys) in [(Releases::Usual, "4"), (Releases::Last, "5"), (Releases::AmongSeveral, "5")]
        {
            let request = Request { release, ..request.clone() };
            let mut command = Vec::new();
            Encoder::new(Session::for_a_test()).write(&request, Way::Script, &mut command);
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
