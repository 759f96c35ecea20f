//! To whom a process passes a lock on, and what the server knows of it.
//!
//! A lock goes to a waiter of the same process without a request to the server where the server has
//! said who comes next. In a *cohort* it has reserved fencing tokens: the next waiters of the
//! process get the lock, each with one of them. Without a cohort, its grant has named *followers*:
//! the waiters of this process that come next in the queue of all processes, in this order, each
//! with a place there. To the server all these holders are one, with one token and one key to
//! renew.
//!
//! If a lock that was passed on is released soon, its release is the only request that the server
//! gets. If it is held for longer, a renewal names all that have had the lock. The last of them
//! has it now, and is the holder on the server from then on. Until that is answered, the server
//! may have the lock under the token of each that was named.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::waiting::{Awaits, Waiting};
use crate::base::clock::Moment;
use crate::base::token::Token;
use crate::engine::protocol::{PassedOn, Reply, Request};

/// A renewal names the holder to the server so long after the lock was passed on. Most holders have
/// released it by then.
pub(super) const NAMED_AFTER: Duration = Duration::from_millis(50);

/// So long after its grant, a lock is passed on to followers. Then the server gets it back.
const LONGEST: Duration = Duration::from_millis(10);

/// The next holder, as the server has said.
#[derive(Default)]
enum Next {
    /// A cohort has asked for fencing tokens. That is done once per grant, because other processes
    /// wait, too.
    #[default]
    Asked,
    /// The fencing tokens that are left to a cohort.
    Fences(RangeInclusive<u64>),
    /// `secrets`: the secrets of the tokens of the followers, of which the ones from `left` on are
    /// left. `served`: the number of those that have had the lock, or had left at their turn.
    Followers { until: Moment, secrets: Box<str>, left: usize, served: u32 },
}

/// The next holder of a released lock.
pub(super) enum NextHolder {
    /// The first waiter of this process, with this fencing token.
    Waiter { fence: u64 },
    /// It is known once the server has answered.
    Unknown,
    /// The lock goes back to the server.
    Server,
}

/// The holder that the server knows, and those after it.
pub(super) struct Successors {
    /// The server has the lock under this one, as far as it has answered.
    token: Token,
    /// It is boxed because most locks are not passed on.
    passing: Option<Box<Passing>>,
}

/// The way in which a process passes a lock on.
#[derive(Default)]
struct Passing {
    next: Next,
    /// Those that have had the lock since the server knew its holder, in their order. The last one
    /// has it now. Each follower among them has a place in the queue on the server, also one
    /// that had left when it was its turn.
    to: Vec<Token>,
    /// The number of these that were named in a request.
    named: usize,
    /// Under this token the server had the lock until the last renewal that named a holder.
    before: Option<Token>,
    /// Followers have places in the queue, with this ttl.
    place_ttl: Option<Duration>,
}

impl Successors {
    /// Only this one has had the lock.
    pub(super) fn of(token: Token) -> Self {
        Self { token, passing: None }
    }

    /// The grant has named these.
    pub(super) fn set_followers(&mut self, now: Moment, secrets: &str, place_ttl: Duration) {
        let next = Next::Followers { until: now.after(LONGEST), secrets: secrets.into(), left: 0, served: 0 };
        self.passing = Some(Box::new(Passing { next, place_ttl: Some(place_ttl), ..Passing::default() }));
    }

    /// True when fencing tokens for the next holders are to be reserved: once per grant.
    pub(super) fn reserve(&mut self) -> bool {
        let is_new = self.passing.is_none();
        self.passing.get_or_insert_default();
        is_new
    }

    /// The reply to the request for `count` fencing tokens.
    pub(super) fn set_reserved(&mut self, reply: &Reply, count: u32) {
        if let Some(passing) = &mut self.passing {
            let last = if let Reply::Reserved { last } = *reply { last } else { 0 };
            passing.next = Next::Fences(last.saturating_sub(count.into()).saturating_add(1)..=last);
        }
    }

    /// Returns whether the first waiter of this process is the next holder.
    pub(super) fn next_holder(&mut self, now: Moment, waiter: &Waiting) -> NextHolder {
        let is_idle = waiter.awaits == Awaits::LocalTurn && !waiter.must_release(true);
        match self.passing.as_mut().map(|passing| &mut passing.next) {
            // The body was quicker than the server: its reply comes sooner than a new grant would.
            Some(Next::Asked) if is_idle => NextHolder::Unknown,
            // The server may grant the lock to a waiter that has asked it. And no other holder gets
            // this fencing token.
            Some(Next::Fences(fences)) if is_idle => {
                fences.next().map_or(NextHolder::Server, |fence| NextHolder::Waiter { fence })
            }
            // An answer to one that asks may be from before its turn.
            Some(Next::Followers { until, secrets, left, served })
                if now < *until && waiter.sleeps_in_queue() && waiter.ask.hold.min.is_none() =>
            {
                let mut rest = secrets.get(*left..).unwrap_or_default();
                let is_first = std::iter::from_fn(|| Token::take_secret(&mut rest))
                    .any(|secret| secret == waiter.token.secret());
                *left = secrets.len() - rest.len();
                *served = served.saturating_add(is_first.into());
                if is_first { NextHolder::Waiter { fence: 0 } } else { NextHolder::Server }
            }
            _ => NextHolder::Server,
        }
    }

    /// The server has named followers.
    pub(super) fn has_followers(&self) -> bool {
        self.passing.as_ref().is_some_and(|passing| passing.are_followers())
    }

    /// Followers have places in the queue that must be given back.
    pub(super) fn owes_places(&self) -> bool {
        self.passing.as_ref().is_some_and(|passing| passing.are_followers() && !passing.to.is_empty())
    }

    /// This one has the lock now.
    pub(super) fn push(&mut self, next: &Token) {
        let Some(passing) = &mut self.passing else { return };
        if !passing.are_followers() {
            // A holder of a cohort has no place, so it is named only if the server knows it.
            passing.to.truncate(passing.named);
        }
        passing.to.push(next.clone());
    }

    /// The server has the lock under this one, as far as it has answered.
    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    /// The token of who has the lock now. The server may not know it yet.
    pub(super) fn holder(&self) -> &Token {
        self.passing.as_ref().and_then(|passing| passing.to.last()).unwrap_or(&self.token)
    }

    /// True for each token under which the server may have the lock.
    pub(super) fn has(&self, token: &Token) -> bool {
        self.token == *token || self.passing.as_ref().is_some_and(|passing| passing.to.contains(token))
    }

    /// True when this request was sent for one of them.
    pub(super) fn have_sent(&self, request: &Request) -> bool {
        self.has(&request.token) || self.has(request.holder())
    }

    /// No request has named the one that has the lock now.
    pub(super) fn has_unnamed_holder(&self) -> bool {
        self.passing.as_ref().is_some_and(|passing| passing.to.len() > passing.named)
    }

    /// A request that names the holder is under way, or has no reply.
    pub(super) fn is_naming_holder(&self) -> bool {
        self.last_named().is_some()
    }

    /// The last one under whose token the server may have the lock.
    fn last_named(&self) -> Option<&Token> {
        let passing = self.passing.as_ref()?;
        passing.to.get(..passing.named)?.last()
    }

    /// True when "not held" means that the lock is lost. A request that was sent before the one that
    /// names the holder may be executed behind it.
    pub(super) fn are_lost_by(&self, request: &Request) -> bool {
        request.holder() == self.last_named().unwrap_or(&self.token)
    }

    /// The number of releases that the last one counts for: one in each millisecond since the
    /// grant, and one for each follower at most. A lock that is left free for foreign clients idles
    /// for some milliseconds: counted by holders alone, short bodies would idle for a fifth of the
    /// time.
    pub(super) fn releases(&self, now: Moment) -> u32 {
        let next = self.passing.as_ref().map(|passing| &passing.next);
        let Some(Next::Followers { until, served, .. }) = next else { return 1 };
        let lasted = LONGEST.saturating_sub(until.since(now));
        let millis = u32::try_from(lasted.as_millis()).unwrap_or(u32::MAX);
        (*served).min(millis).saturating_add(1)
    }

    /// Returns what a renewal sends: it names them all. The followers that are left get the lock from
    /// the server then.
    pub(super) fn name(&mut self) -> Option<Arc<PassedOn>> {
        let passing = self.passing.as_mut()?;
        passing.end();
        passing.named = passing.to.len();
        self.for_release()
    }

    /// Returns what a release sends: those that may have the lock on the server, or a place.
    pub(super) fn for_release(&self) -> Option<Arc<PassedOn>> {
        let passing = self.passing.as_ref()?;
        let to = if passing.are_followers() { &*passing.to } else { passing.to.get(..passing.named)? };
        (!to.is_empty()).then(|| Arc::new(PassedOn { to: to.into(), place_ttl: passing.place_ttl }))
    }

    /// This renewal was executed: the server has the lock under the last token that it names, and no
    /// longer under the one before, which is returned.
    pub(super) fn on_holder_named(&mut self, request: &Request) -> Option<Token> {
        let passing = self.passing.as_mut()?;
        let holder = request.kind.passed_on()?.to.last()?;
        let at = passing.to.iter().position(|token| token == holder)?;
        passing.named = passing.named.saturating_sub(at + 1);
        let holder = passing.to.drain(..=at).next_back()?;
        let before = std::mem::replace(&mut self.token, holder);
        passing.before = Some(before.clone());
        Some(before)
    }

    /// The server knows who has the lock, and the process passes it on no more. The followers do not
    /// matter any more.
    pub(super) fn settle(&mut self) {
        self.passing = None;
    }

    /// The next request may reach another server with another queue, which may not have the last
    /// renewal. So the holder is named once more.
    pub(super) fn set_elsewhere(&mut self) {
        let Some(passing) = &mut self.passing else { return };
        passing.end();
        if let Some(before) = passing.before.take() {
            passing.to.insert(0, std::mem::replace(&mut self.token, before));
            passing.named += 1;
        }
    }
}

impl Passing {
    fn are_followers(&self) -> bool {
        self.place_ttl.is_some()
    }

    /// The followers that are left get the lock from the server: what it has said of its queue may
    /// not be true any more.
    fn end(&mut self) {
        if let Next::Followers { secrets, left, .. } = &mut self.next {
            *left = secrets.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_counts_for_each_follower_but_for_one_in_each_millisecond_at_most() {
        let start = Moment::now();
        let counts = |served, millis| {
            let until = start.after(LONGEST);
            let next = Next::Followers { until, secrets: "".into(), left: 0, served };
            let passing = Some(Box::new(Passing { next, ..Passing::default() }));
            let successors = Successors { token: Token::empty(), passing };
            successors.releases(start.after(Duration::from_millis(millis)))
        };
        assert_eq!(counts(0, 5), 1, "no follower has had it");
        assert_eq!([0, 2, 3, 5, 1000].map(|millis| counts(3, millis)), [1, 3, 4, 4, 4]);
        assert_eq!(counts(31, 1000), 11);
    }
}
