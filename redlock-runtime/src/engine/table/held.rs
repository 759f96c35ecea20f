//! The watchdog: a held lock, its lease, and when it is renewed.
//!
//! Renewals start at a third of the ttl and are tried again until the lease's own deadline; what the server
//! has not confirmed by then is lost, whatever the reason.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::releasing::Releasing;
use super::reserved_fences::ReservedFences;
use crate::clock::Moment;
use crate::engine::command::{AcquireOutcome, Ask, Caller, Extension, Response};
use crate::engine::protocol::{Action, CLAIM, Request};
use crate::error::LockError;
use crate::lease::{Lease, safe_until};
use crate::lost_reason::LostReason;
use crate::token::Token;

/// A lock that is held for longer than this is watched: two more commands, for a loss that is noticed at once.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// A lock that nobody is inside is not kept for longer than this for an answer that may not come.
const LONGEST_GIVEN_UP: Duration = Duration::from_millis(100);

/// Renewals that come due this close together go out in one batch, which wakes the engine once. A small part of the ttl.
const BATCH: Duration = Duration::from_millis(10);

/// When to renew what lasts so long from `since`: after a third of it, or a little before.
fn renewal_after(since: Moment, lasts: Duration) -> Moment {
    since.after(lasts / 3).rounded_down(BATCH.min(lasts / 100))
}

/// Another ttl, until the server has confirmed it or one that came later.
struct Unconfirmed {
    /// The lock may last longer on the server than this.
    shortens: bool,
    /// Of one that shortens and was sent: the lock may be over then, as long as nobody knows what became of it.
    ends: Option<Moment>,
    /// Who waits for the answer.
    caller: Option<oneshot::Sender<Result<(), LockError>>>,
}

pub(super) struct Held {
    pub(super) name: Arc<str>,
    pub(super) lease: Arc<Lease>,
    pub(super) token: Token,
    ttl: Duration,
    /// Without it, only a claim and an [`Extension`] renew.
    renew: bool,
    /// False while the lock, handed over by another holder, expires after the claim instead of the ttl.
    claimed: bool,
    /// An earlier release leaves the key until this.
    keep_until: Option<Moment>,
    next_renewal: Option<Moment>,
    /// When to begin to watch: most bodies are done before.
    first_look: Option<Moment>,
    /// How often another ttl was wanted.
    changes: u32,
    /// The last of these, in their order.
    unconfirmed: Vec<Unconfirmed>,
    pub(super) reserved: ReservedFences,
    /// Nobody is inside: its holder has released it, and whoever follows waits for a fencing token, until then.
    given_up: Option<Moment>,
    /// Its manager is shut down: its lease is over, and it stays as it is until its guard releases it, or its key has
    /// expired, then.
    closed: Option<Moment>,
    /// Who gets it, once its replicas have it.
    pub(super) deliver_to: Option<Caller>,
}

impl Held {
    /// A lock that was asked for at `sent` and is held for the ttl.
    pub(super) fn asked(ask: &Ask, token: Token, lease: Arc<Lease>, sent: Moment) -> Self {
        let mut held = Self::handed_over(ask, token, lease, sent);
        held.claimed = true;
        held.next_renewal = ask.renew.then(|| renewal_after(sent, ask.ttl));
        held
    }

    /// A lock that was handed over at `since` and is held for the claim. Most bodies are done before it has to be
    /// claimed.
    pub(super) fn handed_over(ask: &Ask, token: Token, lease: Arc<Lease>, since: Moment) -> Self {
        Self {
            name: Arc::clone(&ask.name),
            lease,
            token,
            ttl: ask.ttl,
            renew: ask.renew,
            claimed: false,
            next_renewal: Some(renewal_after(since, CLAIM.min(ask.ttl))),
            keep_until: ask.min_hold.map(|min_hold| since.after(min_hold)),
            first_look: Some(since.after(FIRST_LOOK)),
            changes: 0,
            unconfirmed: Vec::new(),
            reserved: ReservedFences::default(),
            given_up: None,
            closed: None,
            deliver_to: None,
        }
    }

    /// No body has run under it.
    pub(super) fn forget_min_hold(&mut self) {
        self.keep_until = None;
    }

    pub(super) fn due(&self) -> Option<Moment> {
        [self.next_renewal, self.first_look, self.given_up, self.closed, self.lease.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn extend(&mut self, extension: Extension) {
        // What is not confirmed may not have been done, and then the lock lasts for as long as before.
        let shortens = extension.ttl < self.ttl || self.shortens();
        self.ttl = extension.ttl;
        self.changes = self.changes.saturating_add(1);
        self.unconfirmed.push(Unconfirmed { shortens, ends: None, caller: Some(extension.caller) });
    }

    fn shortens(&self) -> bool {
        self.unconfirmed.last().is_some_and(|last| last.shortens)
    }

    pub(super) fn has(&self, token: &Token) -> bool {
        self.token == *token
    }

    pub(super) fn wants_renewal(&self) -> bool {
        let is_wanted = |ttl: &Unconfirmed| ttl.shortens || ttl.caller.is_some();
        !self.is_closed() && (self.renew || !self.claimed || self.unconfirmed.iter().any(is_wanted))
    }

    /// True once, when the lock has been held for a while.
    pub(super) fn takes_first_look(&mut self, now: Moment) -> bool {
        self.first_look.take_if(|at| *at <= now).is_some()
    }

    pub(super) fn request(&self, action: Action) -> Request {
        let (name, token) = (Arc::clone(&self.name), self.token.clone());
        Request { action, name, token, ttl: self.ttl }
    }

    /// A renewal, with the ttl that is wanted now.
    pub(super) fn renewal(&self) -> Action {
        Action::Renew { nth: self.changes, shortens: self.shortens() }
    }

    /// A renewal is on its way. Should it be swallowed without a trace, the next one follows. One that shortens the lock
    /// ends the lease from now on, whether its answer comes or not.
    pub(super) fn renewing(&mut self, now: Moment) {
        if let Some(last) = self.unconfirmed.last_mut().filter(|last| last.shortens) {
            let ends = *last.ends.get_or_insert(safe_until(now, self.ttl));
            self.lease.shorten(ends);
        }
        let lasts = if self.claimed { self.ttl } else { self.ttl.min(CLAIM) };
        self.next_renewal = Some(renewal_after(now, lasts));
    }

    /// The server confirmed what was sent at `sent`, with the `nth` ttl. False when that came too late.
    pub(super) fn renewed(&mut self, now: Moment, sent: Moment, nth: u32, ttl: Duration) -> bool {
        // Over a quorum one answer may overtake another: what was confirmed since counts.
        let later = usize::try_from(self.changes.saturating_sub(nth)).unwrap_or(usize::MAX);
        let Some(confirmed) = self.unconfirmed.len().checked_sub(later) else {
            return self.lease.remaining(now).is_some();
        };
        let ends = self.unconfirmed.iter().skip(confirmed).filter_map(|ttl| ttl.ends);
        if !self.lease.renew(now, ends.fold(safe_until(sent, ttl), Ord::min)) {
            return false;
        }
        self.claimed = true;
        for caller in self.unconfirmed.drain(..confirmed).filter_map(|ttl| ttl.caller) {
            let _ = caller.send(Ok(()));
        }
        self.next_renewal = self.wants_renewal().then(|| renewal_after(sent, self.ttl));
        true
    }

    /// It stays like that until somebody acts: who waits for another ttl hears of it.
    pub(super) fn refused(&mut self, reason: &Arc<str>) {
        for caller in self.unconfirmed.iter_mut().filter_map(|ttl| ttl.caller.take()) {
            let _ = caller.send(Err(LockError::misconfigured(self.lease.key(), Arc::clone(reason))));
        }
    }

    /// The server would not do it now: again soon.
    pub(super) fn retry(&mut self, now: Moment) {
        let pause = (self.ttl / 10).clamp(Duration::from_millis(5), Duration::from_secs(1));
        self.next_renewal = Some(now.after(pause));
    }

    /// Nothing is renewed before there is a connection (then it is, at once) or an [`Extension`].
    pub(super) fn suspend(&mut self) {
        self.next_renewal = None;
    }

    /// True when the next of this process may have it without a word to the server: nothing is owed to this holder, or
    /// to one before, and there is time left for the next one to be renewed.
    pub(super) fn may_be_handed_over(&self, now: Moment) -> bool {
        let lasts = if self.claimed { self.ttl } else { self.ttl.min(CLAIM) };
        self.lease.remaining(now).is_some_and(|left| left > lasts / 2)
            && self.keep_until.is_none_or(|until| until <= now)
            && self.unconfirmed.is_empty()
    }

    /// True when this waiter may be the one: to the server it is the same holder.
    pub(super) fn may_be_followed_by(&self, ask: &Ask) -> bool {
        ask.renew && ask.ttl == self.ttl
    }

    /// Ends the lease, and keeps the time that the server gave for whoever is next, a while.
    pub(super) fn give_up(&mut self, now: Moment) {
        if let Some(deadline) = self.lease.deadline() {
            let (key, fence) = (Arc::clone(self.lease.key()), self.lease.fence());
            self.replace_lease(Lease::new(key, fence, deadline, None));
            self.given_up = Some(now.after(LONGEST_GIVEN_UP));
        }
    }

    /// Ends the lease, and leaves the key: its holder may be inside for longer. False when that is so already, or nobody
    /// is inside.
    pub(super) fn closes(&mut self, now: Moment) -> bool {
        if self.is_given_up() || self.is_closed() || self.lease.remaining(now).is_none() {
            return false;
        }
        self.lease.end(LostReason::ManagerClosed);
        (self.next_renewal, self.first_look) = (None, None);
        self.unconfirmed.clear();
        // A renewal may be on its way.
        self.closed = Some(now.after(self.ttl));
        true
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    pub(super) fn is_given_up_for_good(&self, now: Moment) -> bool {
        self.given_up.is_some_and(|until| until <= now)
    }

    /// Ends the lease and begins that of the next holder, in what is left of the time that the server gave. `None` when
    /// there is none left, of time or of fencing tokens.
    pub(super) fn hand_over(&mut self, now: Moment, ask: &Ask) -> Option<Arc<Lease>> {
        let deadline = self.lease.deadline()?;
        let fence = self.reserved.next()?;
        self.replace_lease(ask.lease(fence, now, deadline));
        self.renew = ask.renew;
        self.keep_until = ask.min_hold.map(|min_hold| now.after(min_hold));
        self.given_up = None;
        self.next_renewal.get_or_insert(now);
        Some(Arc::clone(&self.lease))
    }

    fn replace_lease(&mut self, lease: Lease) {
        std::mem::replace(&mut self.lease, Arc::new(lease)).end(LostReason::Released);
    }

    /// `early`: by its guard, not because it was lost.
    pub(super) fn release(
        &self,
        now: Moment,
        io_timeout: Duration,
        early: bool,
        response: Option<Response>,
    ) -> Releasing {
        let request = self.request(Action::Release);
        let mut releasing = Releasing::new(now, Arc::clone(self.lease.key()), request, self.ttl);
        if let Some(keep_until) = self.keep_until.filter(|_| early) {
            releasing = releasing.keeping(keep_until);
        }
        match response {
            Some(response) => releasing.answering(now.after(io_timeout), response),
            None => releasing,
        }
    }
}

impl Drop for Held {
    /// However it goes, even with the engine itself: a lease that nobody renews is not left looking alive.
    fn drop(&mut self) {
        self.lease.end(LostReason::ManagerClosed);
        if let Some(caller) = self.deliver_to.take() {
            let _ = caller.send(AcquireOutcome::Failed(self.lease.lost()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_of_one_batch_are_due_at_once_and_none_later_than_a_third() {
        let start = Moment::now().rounded_down(BATCH);
        for ttl in [Duration::from_millis(10), Duration::from_millis(500), Duration::from_secs(30)] {
            for micros in [0, 1, 9_999, 10_000, 123_456] {
                let since = start.after(Duration::from_micros(micros));
                let at = renewal_after(since, ttl);
                assert!(at <= since.after(ttl / 3), "{ttl:?}");
                assert!(at >= since.after(ttl * 3 / 10), "{ttl:?}");
            }
        }
        let ttl = Duration::from_secs(30);
        let [first, last, next] =
            [0, 9_999, 10_000].map(|micros| renewal_after(start.after(Duration::from_micros(micros)), ttl));
        assert_eq!(first, last);
        assert_ne!(first, next);
    }
}
