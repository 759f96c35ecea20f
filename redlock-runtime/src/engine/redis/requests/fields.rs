//! What the requests and the replies of all kinds of locks have in common: keys, arguments and values.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::{Holder, InFront};
use crate::base::host::HashSet;
use crate::base::limit::Limit;
use crate::base::owner::Owner;
use crate::base::token::{self, MARK, Token};
use crate::engine::protocol::{Action, Kind, Mode, Refusal, Releases, Reply, Request};
use crate::engine::redis::connect::fence_floor::{ABOVE_ALL, FenceFloor, Floor};
use crate::engine::redis::connect::handshake::{LateRequests, Session};
use crate::engine::redis::scripts::{Script, SentScripts};
use crate::engine::redis::wire::command::Command;
use crate::engine::redis::wire::value::{Value, text};

/// The third argument with which renew.lua and repair.lua may shorten a lease.
pub(super) const EXACTLY: &str = "exactly";

/// As [`EXACTLY`], and the value of the lock says from then on that a ticket carries it.
pub(super) const TICKET: &str = "ticket";

/// The kind of a caller that asked a while ago: the time of its grant is not the one in its token.
pub(super) const LATE: &str = "late";

/// The last argument of a request that draws no fencing token.
pub(super) const UNFENCED: &str = "unfenced";

pub(super) fn is_renewal(action: Action) -> bool {
    matches!(action, Action::Renew { .. })
}

pub(crate) fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Encodes the requests of one connection.
pub(super) struct Encoder {
    pub(super) session: Box<Session>,
    /// The time when the requests are being encoded.
    pub(super) now: Moment,
    pub(super) sent: SentScripts,
    /// So high the clock of fencing tokens should be, for the requests that are being encoded.
    pub(super) estimate: u64,
    /// The largest number that was seen is the floor in any case.
    pub(super) is_behind: bool,
    /// Fencing tokens may be drawn without a script: the clock is at the time.
    pub(super) may_draw: bool,
    /// They are, because one of these requests carries the floor, or none need.
    pub(super) draws_directly: bool,
    /// The ttl of the last plain `SET` in milliseconds, and its digits: most calls have the same.
    pub(super) ttl: (u64, String),
    /// Locks that may be counted. A script for another one does not name those that have it: that
    /// makes it a twentieth longer.
    pub(super) counted: HashSet<Arc<str>>,
}

/// So many of them are kept in mind.
pub(super) const MOST_COUNTED: usize = 4_096;

impl Encoder {
    pub(super) fn new(session: Session) -> Self {
        Self {
            session: Box::new(session),
            now: Moment::now(),
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
        self.now = now;
        (self.estimate, self.is_behind) = (fences.estimate(now), fences.is_behind());
        // The look at the lock behind the number is a GETRANGE.
        self.may_draw = may_draw && self.session.reads_parts;
        self.draws_directly = self.may_draw && !fences.is_due(now);
    }

    /// Access rules forbid `GETRANGE` now.
    pub(super) fn reads_no_parts(&mut self) {
        if self.session.reads_parts {
            self.session.reads_parts = false;
            // The scripts are others.
            self.sent = SentScripts::default();
        }
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

    /// From now on each script is sent as its source.
    pub(super) fn send_sources(&mut self) {
        self.sent.send_sources();
    }

    /// The start of a call.
    pub(super) fn call(&mut self, script: Script, command: &mut Command<'_>) {
        let [how, which] = self.how_to_call(script);
        command.arg(how).arg(which);
    }

    pub(super) fn how_to_call(&mut self, script: Script) -> [&'static str; 2] {
        // A force-release always carries its source: sent again without it, it would come
        // behind later requests.
        if !self.sent.set(script) || matches!(script, Script::ForceRelease) {
            ["EVAL", script.source(self.session.dialect())]
        } else {
            ["EVALSHA", script.hash(self.session.dialect())]
        }
    }

    /// The floor of fencing tokens for this request.
    pub(super) fn floor(&self, request: &Request) -> Floor {
        let seen = self.session.seen.largest(&self.session.keyspace, &request.name);
        match request.action {
            _ if self.is_behind && seen > 0 => Floor::Seen(seen),
            // A ticket may come from a process that has seen larger fencing tokens: its clock is at
            // the time at least.
            Action::Redeem => Floor::Estimate(ABOVE_ALL),
            _ => Floor::above(self.estimate, seen),
        }
    }

    /// The action that the server is asked for. Without hand-off, a place in a queue is of no use.
    pub(super) fn action(&self, action: Action) -> Action {
        match action {
            Action::Acquire(mode) => Action::Acquire(self.allowed(mode)),
            action => action,
        }
    }

    /// Returns how a call for several locks asks for one of them.
    pub(super) fn mode(&self, action: Action) -> Mode {
        self.allowed(Self::wanted(action))
    }

    pub(super) fn wanted(action: Action) -> Mode {
        match action {
            Action::Acquire(mode) | Action::AcquireNext { mode, .. } => mode,
            _ => Mode::OneTry,
        }
    }

    pub(super) fn allowed(&self, mode: Mode) -> Mode {
        if self.session.abilities.hands_over { mode } else { Mode::OneTry }
    }

    /// A late request must not shorten the lock: then the server keeps it for longer than the
    /// holder counts on.
    pub(super) fn may_shorten(&self, shortens: bool) -> bool {
        shortens && self.session.late_requests == LateRequests::Impossible
    }

    /// Returns how a caller asks or releases, its inbox, and a number, as `docs/design.md` says of
    /// the scripts.
    pub(super) fn how(&self, action: Action) -> (&'static str, Option<&str>, Option<u32>) {
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
    pub(super) fn word(&self, mode: Mode) -> &'static str {
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

    /// Those of a script that knows the queue, and how many they are.
    pub(super) fn write_keys(&self, command: &mut Command<'_>, request: &Request) {
        let keyspace = &self.session.keyspace;
        let once = matches!(request.kind, Kind::Once(_));
        let names_holders = match request.action {
            Action::ForceRelease | Action::SetPermits { .. } => true,
            _ if once => true,
            // A first waiter that is counted makes the script ask for them.
            Action::Release if request.release != Releases::Usual => true,
            Action::Acquire(_) | Action::AcquireNext { .. } | Action::Release => {
                request.kind.is_counted() || self.counted.contains(&request.name)
            }
            _ => request.kind.is_counted(),
        };
        let keys = 4 + 2 * u32::from(names_holders) + u32::from(once);
        command.arg(keys).arg(&*request.name);
        self.write_queue(command, request);
        keyspace.write_clock(command, &request.name);
        keyspace.write_claim(command, &request.name);
        if names_holders {
            keyspace.write_holders(command, &request.name);
            keyspace.write_permits(command, &request.name);
        }
        if once {
            keyspace.write_once(command, &request.name);
        }
    }

    /// A queue that access rules keep from this connection is none to it: it takes a free lock past
    /// those who wait.
    pub(super) fn write_queue(&self, command: &mut Command<'_>, request: &Request) {
        match request.action {
            action if (action.takes() || request.kind.is_counted()) && !self.session.queues => {
                self.session.keyspace.write_no_queue(command, &request.name);
            }
            _ => self.session.keyspace.write_queue(command, &request.name),
        }
    }
}

/// True for the value of a lock that this token holds, with a mark or without.
pub(super) fn is_of(value: &[u8], token: &Token) -> bool {
    let behind = value.strip_prefix(token.value().as_bytes());
    behind.is_some_and(|behind| behind.is_empty() || behind == MARK.as_bytes())
}

/// Reads the owner of a member of the queue.
pub(super) fn owner(member: &str) -> Option<Owner> {
    let (token, _) = member.split_once('|')?;
    token::owner_of(token)
}

/// The first waiter, by its member of the queue.
pub(super) fn in_front_of(member: &str) -> InFront {
    let limit = member.splitn(4, '|').nth(3).and_then(|kind| Limit::parse(kind.strip_prefix('n')?));
    InFront { owner: owner(member), limit: limit.unwrap_or(Limit::ONE) }
}

/// From the value of the lock, its PTTL, and when it was granted.
pub(super) fn holder(value: &[u8], pttl: i64, granted: &Value) -> Holder {
    Holder {
        owner: std::str::from_utf8(value).ok().and_then(token::owner_of),
        granted: number(granted).and_then(NonZeroU64::new),
        is_ticket: text(granted).is_some_and(|seconds| seconds.starts_with('0')),
        expires_in: u64::try_from(pttl).ok().map(Duration::from_millis),
        usual_hold: None,
        rate: None,
        inside: inside(value),
        limit: counted_parts(value)
            .and_then(|[limit, _]| Some(Limit::of(limit.parse().ok()?).taking(taken(value)))),
        is_central: is_central(value),
        call: None,
        waiter: None,
    }
}

/// Lua would round numbers above 2^53, so scripts return large ones as text.
pub(super) fn number(value: &Value) -> Option<u64> {
    text(value)?.parse().ok()
}

/// A reply that the script cannot return: it may answer another request, so that nobody knows what
/// the server has done of this one.
pub(super) fn nonsense(value: &Value) -> Reply {
    // The value itself may hold a token: only its kind is shown.
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

/// Returns what stands behind the prefix in the value of a counted lock, and behind that.
pub(super) fn counted_parts(value: &[u8]) -> Option<[&str; 2]> {
    let (limit, rest) = std::str::from_utf8(value).ok()?.strip_prefix(COUNTED)?.split_once('|')?;
    Some([limit, rest])
}

/// Returns how many have the lock, in the answer to a request for it: `%holders|least
/// limit|phase|number`, and behind that how many permits they take, where that is more. Else 0.
pub(super) fn inside(value: &[u8]) -> u32 {
    part_behind_phase(value, 1).unwrap_or(0)
}

/// Returns how many permits these take. Else 0.
pub(super) fn taken(value: &[u8]) -> u32 {
    part_behind_phase(value, 2).unwrap_or_else(|| inside(value))
}

/// True where the limit is the central one: then `c` stands behind how many permits they take.
pub(super) fn is_central(value: &[u8]) -> bool {
    counted_parts(value).is_some_and(|[_, rest]| rest.split('|').nth(3) == Some("c"))
}

fn part_behind_phase(value: &[u8], at: usize) -> Option<u32> {
    counted_parts(value)?[1].split('|').nth(at)?.parse().ok()
}

/// The start of the value of a counted lock.
pub(super) const COUNTED: &str = "%holders|";
