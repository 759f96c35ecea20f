//! Who has a lock, what each of them allows, and for whom there is room.

use crate::oracle::CallId;
use crate::server::{Bytes, Server};

/// The first byte of the value of a lock that several may have.
const COUNTED: u8 = b'%';

/// What a caller wants of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Want {
    /// How many may be inside with it, itself included: 1 for an exclusive lock, 0 for any number.
    pub allows: u32,
    /// For how many it counts.
    pub takes: u32,
}

impl Want {
    /// The lock beside other readers.
    pub const READER: Self = Self { allows: 0, takes: 1 };

    /// The lock alone.
    pub const ALONE: Self = Self { allows: 1, takes: 1 };

    /// Reads `10`, or `10x3` for a caller that takes three of ten permits.
    fn read(text: &[u8]) -> Option<Self> {
        let mut numbers = text.split(|byte| *byte == b'x');
        let allows = number(numbers.next()?)?;
        Some(Self { allows, takes: numbers.next().map_or(Some(1), number)? })
    }
}

/// What a server stores of a lock.
#[derive(Default)]
pub struct Room {
    /// Several may have it: the server counts them.
    pub is_counted: bool,
    /// The callers that have it, as far as their labels tell.
    pub holders: Vec<CallId>,
    /// What each of those that have it wants: the lock alone also for a client of another kind.
    inside: Vec<Want>,
    /// What the first waiter wants that is notified of its turn.
    first: Option<Want>,
    /// How many permits an operator has set.
    central: Option<u32>,
    /// An operator may have set fewer permits than a caller takes: that one asks again by itself, after a while.
    pub may_refuse: bool,
}

impl Room {
    /// Reads the room of a lock on this server; `None` where it has no such key. The lease of one of several may be
    /// over while the key is still there.
    #[must_use]
    pub fn of(server: &Server, now: u64, key: &str) -> Option<Self> {
        let name = format!("lock:{key}");
        let value = server.value(now, name.as_bytes())?;
        let queue = beside(server, now, key, "%queue");
        let is_heard = |inbox: &[u8]| {
            !server.subscribers(inbox).is_empty() || !server.sharded_subscribers(inbox).is_empty()
        };
        let mut waiters = queue.iter().map(|(member, _)| parts(member));
        let first = waiters.find(|parts| parts.get(2).is_some_and(|inbox| is_heard(inbox)));
        let first = first
            .map(|parts| parts.get(3).and_then(|kind| Want::read(kind.get(1..)?)).unwrap_or(Want::ALONE));
        if value.first() != Some(&COUNTED) {
            let holders = caller_of(value).into_iter().collect();
            return Some(Self { holders, inside: vec![Want::ALONE], first, ..Self::default() });
        }
        let central = central_of(server, now, key);
        let mut room = Self { is_counted: true, first, central, ..Self::default() };
        for (member, ends) in beside(server, now, key, "%queue%holders") {
            let parts = parts(&member);
            if ends > server.time(now) {
                room.holders.extend(caller_of(parts[0]));
                room.inside.push(parts.get(1).and_then(|want| Want::read(want)).unwrap_or(Want::ALONE));
            }
        }
        Some(room)
    }

    /// Nobody has it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.inside.is_empty()
    }

    /// A caller that wants this could enter, and does not have to wait behind the first waiter.
    #[must_use]
    pub fn is_for(&self, want: Want) -> bool {
        !(self.may_refuse && want.takes > 1)
            && self.has(want)
            && self.first.is_none_or(|first| self.has(first))
    }

    fn has(&self, want: Want) -> bool {
        self.is_free() || allow(self.inside.iter().copied().chain([want]), self.central)
    }
}

/// True if each of these allows that all of them are inside. A central limit counts in the place of each number of permits.
#[must_use]
pub fn allow(each: impl Iterator<Item = Want> + Clone, central: Option<u32>) -> bool {
    let count: u64 = each.clone().map(|want| u64::from(want.takes)).sum();
    each.into_iter().all(|want| match (want.allows, central) {
        (0, _) => true,
        (2.., Some(central)) => count <= u64::from(central),
        (allows, _) => count <= u64::from(allows),
    })
}

/// How many permits an operator has set for a lock.
fn central_of(server: &Server, now: u64, key: &str) -> Option<u32> {
    number(server.value(now, name_beside(server, now, key, "%queue%permits")?)?)
}

/// The number in the label of the caller whose token it is.
#[must_use]
pub fn caller_of(value: &[u8]) -> Option<CallId> {
    let token = std::str::from_utf8(value).ok()?.split(['=', '!']).next()?;
    token.rsplit('/').next()?.strip_prefix("call-")?.parse().ok()
}

fn parts(member: &[u8]) -> Vec<&[u8]> {
    member.split(|byte| *byte == b'|').collect()
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A set beside a lock, which has the tag of its slot in a Cluster.
fn beside(server: &Server, now: u64, key: &str, side: &str) -> Vec<(Bytes, f64)> {
    name_beside(server, now, key, side).map(|name| server.members(now, name)).unwrap_or_default()
}

fn name_beside<'a>(server: &'a Server, now: u64, key: &str, side: &str) -> Option<&'a [u8]> {
    let name = format!("lock:{key}{side}");
    let tagged = format!("{side}:{key}");
    server.keys(now).find(|each| *each == name.as_bytes() || each.ends_with(tagged.as_bytes()))
}
