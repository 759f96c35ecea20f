//! Those that hold a lock of `memory://` beside others: readers, and the holders of permits. The
//! same rule as in `counted.lua`.

use super::{Inbox, Moment, Token, Waiter, next_fence};
use crate::base::error::Holder;
use crate::base::limit::Limit;
use crate::base::owner::Owner;
use crate::base::token;
use crate::engine::protocol::Counted;

/// All that are inside. They share one fencing token, from the first that enters an empty lock to
/// the last that leaves.
#[derive(Default)]
pub(super) struct Inside {
    members: Vec<Member>,
    /// The number of the phase. Zero until it is drawn.
    fence: u64,
    /// How many permits there are, in the place of the numbers of those with permits.
    pub(super) central: Option<u32>,
}

pub(super) struct Member {
    pub(super) token: Token,
    pub(super) limit: Limit,
    pub(super) expires: Moment,
    /// It was let in by a push, and has not renewed.
    pub(super) is_claim: bool,
    pub(super) inbox: Inbox,
}

impl Member {
    /// It stays until `expires` unless it renews.
    pub(super) fn new(Waiter { token, limit, inbox, .. }: Waiter, expires: Moment, is_claim: bool) -> Self {
        Self { token, limit, expires, is_claim, inbox }
    }
}

impl Inside {
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// Returns how many permits they take.
    pub(super) fn taken(&self) -> u32 {
        self.members.iter().fold(0, |taken, member| taken.saturating_add(member.limit.take()))
    }

    /// The least of theirs.
    pub(super) fn limit(&self) -> Limit {
        self.members.iter().fold(Limit::NONE, |limit, member| limit.least(member.limit))
    }

    /// The limit that counts, and how many permits are taken.
    fn counts(&self) -> Limit {
        self.limit().allowed(self.central).taking(self.taken())
    }

    /// That is the central limit.
    fn is_central(&self) -> bool {
        self.central.is_some() && self.limit().number() > 1
    }

    pub(super) fn get(&self, token: &Token) -> Option<&Member> {
        self.members.iter().find(|member| member.token == *token)
    }

    pub(super) fn get_mut(&mut self, token: &Token) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.token == *token)
    }

    pub(super) fn is_held(&self, now: Moment) -> bool {
        self.members.iter().any(|member| member.expires > now)
    }

    /// Those whose lease is over leave. Returns the inboxes of those that were let in and never
    /// renewed: their processes are stuck.
    pub(super) fn drop_expired(&mut self, now: Moment) -> Vec<Inbox> {
        let over = self.members.extract_if(.., |member| member.expires <= now);
        over.filter(|member| member.is_claim).map(|member| member.inbox).collect()
    }

    /// True when one more may enter, with this limit.
    pub(super) fn has_room(&self, limit: Limit) -> bool {
        limit.has_room(self.taken(), self.limit(), self.central)
    }

    /// Returns when there may be room for one with this limit: one that wants the lock alone waits
    /// for the last, others until enough permits are free.
    pub(super) fn next_end(&self, limit: Limit) -> Option<Moment> {
        self.next(limit).map(|member| member.expires)
    }

    /// Whose end that is.
    pub(super) fn next_to_end(&self, limit: Limit) -> Option<Owner> {
        self.next(limit).and_then(|member| token::owner_of(member.token.value()))
    }

    /// The member behind whose end there is room. The members that stay say how many may be inside then.
    fn next(&self, limit: Limit) -> Option<&Member> {
        let mut by_end = self.by_end();
        let (mut taken, mut of_those) = (0_u32, Limit::NONE);
        while let Some(last) = by_end.pop() {
            taken = taken.saturating_add(last.limit.take());
            of_those = of_those.least(last.limit);
            if by_end.is_empty() || !limit.has_room(taken, of_those, self.central) {
                return Some(last);
            }
        }
        None
    }

    fn by_end(&self) -> Vec<&Member> {
        let mut by_end: Vec<&Member> = self.members.iter().collect();
        by_end.sort_by_key(|member| member.expires);
        by_end
    }

    /// It is inside from now on.
    pub(super) fn add(&mut self, member: Member) {
        if self.is_empty() {
            self.fence = 0;
        }
        self.members.push(member);
    }

    /// The phase has this number. Without one, it is drawn.
    pub(super) fn begin(&mut self, phase: Option<u64>) {
        self.fence = phase.unwrap_or_default();
    }

    /// The fencing token of all that are inside.
    pub(super) fn fence(&mut self, now: Moment, clock: &mut u64) -> u64 {
        if self.fence == 0 {
            self.fence = next_fence(now, clock);
        }
        self.fence
    }

    /// True if it was inside.
    pub(super) fn leave(&mut self, token: &Token) -> bool {
        self.members.extract_if(.., |member| member.token == *token).count() > 0
    }

    /// All leave.
    pub(super) fn take_all(&mut self) -> Vec<Member> {
        std::mem::take(&mut self.members)
    }

    /// As a caller with this limit sees them.
    pub(super) fn seen(&self, limit: Limit, now: Moment) -> Holder {
        let expires_in = self.next_end(limit).map(|end| end.since(now));
        let limit = (!self.is_empty()).then(|| self.counts());
        Holder { inside: self.count(), limit, is_central: self.is_central(), expires_in, ..Holder::default() }
    }

    /// Each of the first 100; `None` when nobody is inside.
    pub(super) fn seen_one_by_one(&self, now: Moment) -> Option<Counted> {
        let seen = |member: &Member| (member.token.clone(), member.limit.take(), member.expires.since(now));
        let holders = self.by_end().into_iter().take(100).map(seen).collect();
        let (limit, is_central) = (self.counts(), self.is_central());
        (!self.is_empty()).then(|| Counted { limit, is_central, inside: self.count(), holders })
    }

    /// Names the phase of those that are inside now.
    pub(super) fn name(&self) -> Token {
        Token::naming_phase(self.fence)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A reader, and before it the end of one that allows two: three permits are free behind the
    /// first end, not behind both.
    #[test]
    fn the_end_of_the_one_that_allows_the_fewest_makes_room_for_several() {
        let (now, mut inside) = (Moment::now(), Inside::default());
        let (inbox, _pushes) = tokio::sync::mpsc::unbounded_channel();
        for (limit, seconds) in [(0, 9), (2, 1)] {
            let expires = now.after(Duration::from_secs(seconds));
            let (limit, inbox) = (Limit::of(limit), inbox.clone());
            inside.add(Member { token: Token::from_value("t"), limit, expires, is_claim: false, inbox });
        }
        let next_end = |limit| inside.next_end(limit).map(|end| end.since(now).as_secs());
        assert_eq!(next_end(Limit::of(3).taking(2)), Some(1));
        assert_eq!(next_end(Limit::of(3).taking(3)), Some(9));
        assert_eq!((next_end(Limit::ONE), next_end(Limit::NONE)), (Some(9), Some(1)));
    }
}
