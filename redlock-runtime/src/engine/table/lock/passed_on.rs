//! To whom this process has passed a lock on since the server was told who has it.
//!
//! A lock that is held for a moment is passed on and given back, and the server hears of it once, with the release. One that is
//! held for longer is told: a renewal names those that have had the lock, the last one has it now, and to the server it is the
//! holder from then on. Until that is answered, the server may have the lock under the token of each that was named.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::protocol::{self, Request};
use crate::engine::table::lock::successors::Followers;
use crate::engine::table::lock::waiting::Waiting;
use crate::ground::clock::Moment;
use crate::ground::token::Token;

/// So long after it was passed on, the server is told who has it. Most holders have released it by then.
pub(in crate::engine::table) const TOLD_AFTER: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(in crate::engine::table) struct PassedOn {
    /// The waiters that its grant has named; `None` in a cohort.
    followers: Option<Followers>,
    /// In their order. The last one has it now. Each follower that has had the lock, or has left when it was its turn, has a
    /// place in the queue on the server.
    to: Vec<Token>,
    /// So many of these were named in a request.
    named: usize,
    /// Under this token the server had the lock until it was told last.
    before: Option<Token>,
}

impl PassedOn {
    pub(in crate::engine::table) fn followed_by(followers: Followers) -> Self {
        Self { followers: Some(followers), ..Self::default() }
    }

    pub(in crate::engine::table) fn is_to_followers(&self) -> bool {
        self.followers.is_some()
    }

    /// True when `next` is the follower whose turn has come.
    pub(in crate::engine::table) fn is_followed_by(&mut self, now: Moment, next: &Waiting) -> bool {
        self.followers.as_mut().is_some_and(|followers| followers.serve(now, next))
    }

    /// The followers that are left get the lock from the server: what it has said of its queue may not be true any more.
    pub(in crate::engine::table) fn end(&mut self) {
        if let Some(followers) = &mut self.followers {
            followers.end();
        }
    }

    pub(in crate::engine::table) fn to(&mut self, next: &Token) {
        if self.followers.is_none() {
            // Those of a cohort have no places: one that the server has not heard of needs not be named.
            self.to.truncate(self.named);
        }
        self.to.push(next.clone());
    }

    /// Who has the lock now, unless that is the one that the server knows of.
    pub(in crate::engine::table) fn holder(&self) -> Option<&Token> {
        self.to.last()
    }

    /// No request has named the one that has the lock now.
    pub(in crate::engine::table) fn is_to_be_told(&self) -> bool {
        self.to.len() > self.named
    }

    pub(in crate::engine::table) fn has(&self, token: &Token) -> bool {
        self.to.contains(token)
    }

    /// The last one under whose token the server may have the lock.
    pub(in crate::engine::table) fn last_named(&self) -> Option<&Token> {
        self.to.get(..self.named).and_then(<[Token]>::last)
    }

    /// Followers have places in the queue that must be given back.
    pub(in crate::engine::table) fn has_places(&self) -> bool {
        self.is_to_followers() && !self.to.is_empty()
    }

    /// For how many releases the last one counts.
    pub(in crate::engine::table) fn releases(&self, now: Moment) -> u32 {
        self.followers.as_ref().map_or(1, |followers| followers.releases(now))
    }

    /// For a renewal, which names them all. The followers that are left get the lock from the server then.
    pub(in crate::engine::table) fn naming(
        &mut self,
        place_ttl: Duration,
    ) -> Option<Arc<protocol::PassedOn>> {
        self.end();
        self.named = self.to.len();
        self.named_in_release(place_ttl)
    }

    /// For a release: those that may have the lock on the server, or a place.
    pub(in crate::engine::table) fn named_in_release(
        &self,
        place_ttl: Duration,
    ) -> Option<Arc<protocol::PassedOn>> {
        let to = if self.is_to_followers() { &*self.to } else { self.to.get(..self.named)? };
        let place_ttl = self.is_to_followers().then_some(place_ttl);
        (!to.is_empty()).then(|| Arc::new(protocol::PassedOn { to: to.into(), place_ttl }))
    }

    /// This request was executed: the server has the lock under the last token that it names, and no longer under `token`. Returns
    /// that one.
    pub(in crate::engine::table) fn told(&mut self, request: &Request, token: &mut Token) -> Option<Token> {
        let holder = request.passed_on.as_ref()?.to.last()?;
        let at = self.to.iter().position(|token| token == holder)?;
        self.named = self.named.saturating_sub(at + 1);
        let holder = self.to.drain(..=at).next_back()?;
        let before = std::mem::replace(token, holder);
        self.before = Some(before.clone());
        Some(before)
    }

    /// Another server may be the primary now, and may not have heard what the last one was told. It is told once more.
    pub(in crate::engine::table) fn tell_again(&mut self, token: &mut Token) {
        if let Some(before) = self.before.take() {
            self.to.insert(0, std::mem::replace(token, before));
            self.named += 1;
        }
    }
}
