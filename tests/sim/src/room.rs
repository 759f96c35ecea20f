//! Who has a lock, what each of them allows, and for whom there is room.

use crate::oracle::CallId;
use crate::server::{Bytes, Server};

/// The first byte of the value of a lock that several may have.
const COUNTED: u8 = b'%';

/// What a server stores of a lock.
#[derive(Default)]
pub struct Room {
    /// Several may have it: the server counts them.
    pub is_counted: bool,
    /// The callers that have it, as far as their labels tell.
    pub holders: Vec<CallId>,
    /// What each of those that have it allows: 1 also for a client of another kind.
    inside: Vec<u32>,
    /// What the first waiter allows that hears of its turn.
    first: Option<u32>,
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
        let first = first.map(|parts| parts.get(3).and_then(|kind| number(kind.get(1..)?)).unwrap_or(1));
        if value.first() != Some(&COUNTED) {
            let holders = caller_of(value).into_iter().collect();
            return Some(Self { is_counted: false, holders, inside: vec![1], first });
        }
        let mut room = Self { is_counted: true, first, ..Self::default() };
        for (member, ends) in beside(server, now, key, "%queue%holders") {
            let parts = parts(&member);
            if ends > server.time(now) {
                room.holders.extend(caller_of(parts[0]));
                room.inside.push(parts.get(1).and_then(|allows| number(allows)).unwrap_or(1));
            }
        }
        Some(room)
    }

    /// Nobody has it.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.inside.is_empty()
    }

    /// One that allows so many could enter, and does not have to wait behind the first waiter.
    #[must_use]
    pub fn is_for(&self, allows: u32) -> bool {
        self.has(allows) && self.first.is_none_or(|first| self.has(first))
    }

    fn has(&self, allows: u32) -> bool {
        let count = self.inside.len() + 1;
        self.is_free() || allow(self.inside.iter().copied().chain([allows]), count)
    }
}

/// Each of these, with 0 for any number, allows that so many are inside.
#[must_use]
pub fn allow(each: impl IntoIterator<Item = u32>, count: usize) -> bool {
    each.into_iter().all(|most| most == 0 || usize::try_from(most).is_ok_and(|most| count <= most))
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
    let name = format!("lock:{key}{side}");
    let tagged = format!("{side}:{key}");
    let found = server.keys(now).find(|each| *each == name.as_bytes() || each.ends_with(tagged.as_bytes()));
    found.map(|name| server.members(now, name)).unwrap_or_default()
}
