//! The server: the lock, its queue, and the scripts.

use super::rules::{Bounds, Mistake};
use super::state::{Answer, Client, Phase, State};

/// In ticks.
pub(super) const TTL: u8 = 3;
pub(super) const CLAIM: u8 = 1;
/// How long a marked lock outlives its lease.
pub(super) const GRACE: u8 = 1;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Owner {
    Client(usize),
    Stranger,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Lock {
    pub(super) owner: Owner,
    /// The value ends with the mark: at least one client waits.
    pub(super) marked: bool,
    /// Ticks until the key expires.
    pub(super) expires_in: u8,
}

/// What the scripts share.
impl State {
    pub(super) fn is_owner(&self, me: usize) -> bool {
        self.lock.is_some_and(|lock| lock.owner == Owner::Client(me))
    }

    /// The lease of a marked lock has ended, although its key is still there.
    fn is_in_grace(&self, bounds: &Bounds) -> bool {
        let lock = self.lock.filter(|lock| lock.marked && !bounds.has(Mistake::NoGrace));
        lock.is_some_and(|lock| lock.expires_in <= GRACE)
    }

    pub(super) fn is_free(&self, bounds: &Bounds) -> bool {
        self.lock.is_none() || self.is_in_grace(bounds)
    }

    fn grace(marked: bool, bounds: &Bounds) -> u8 {
        if marked && !bounds.has(Mistake::NoGrace) { GRACE } else { 0 }
    }

    /// Ticks until the lease of the lock ends.
    fn left(&self, bounds: &Bounds) -> u8 {
        self.lock.map_or(0, |lock| lock.expires_in.saturating_sub(Self::grace(lock.marked, bounds)))
    }

    fn put(&mut self, me: usize, lasts: u8, marked: bool, bounds: &Bounds) {
        let expires_in = lasts + Self::grace(marked, bounds);
        self.lock = Some(Lock { owner: Owner::Client(me), marked, expires_in });
        self.order_is_lost &= !(self.queue.is_empty() || marked);
        self.slept = 0;
        let latest = self.clients.iter().map(|client| client.turn).max();
        self.clients[me].turn = latest.unwrap_or(0) + 1;
        if self.clients[me].wants_fence && !bounds.has(Mistake::CountsFenceLater) {
            self.count_fence(me);
        }
    }

    fn count_fence(&mut self, me: usize) {
        let highest = self.clients.iter().map(|client| client.fence).max();
        self.clients[me].fence = highest.unwrap_or(0) + 1;
    }

    fn join_queue(&mut self, me: usize, bounds: &Bounds) {
        if !self.queue.contains(&me) || (bounds.has(Mistake::JoinsAgain) && self.queue.len() < 4) {
            self.queue.push(me);
        }
    }

    fn leave_queue(&mut self, me: usize, bounds: &Bounds) {
        if !bounds.has(Mistake::KeepsPlace) {
            self.queue.retain(|waiter| *waiter != me);
        }
    }

    /// Never a value of a stranger: its owner would not know it again.
    fn mark(&mut self, bounds: &Bounds) {
        let Some(lock) = self.lock.as_mut().filter(|lock| !lock.marked) else { return };
        if self.queue.is_empty() || (lock.owner == Owner::Stranger && !bounds.has(Mistake::MarksStranger)) {
            return;
        }
        lock.marked = true;
        self.order_is_lost = false;
        if !bounds.has(Mistake::MarkAddsNoGrace) {
            lock.expires_in += Self::grace(true, bounds);
        }
    }

    /// Tells the first two waiters. One may be dead, or stuck.
    fn tell_first_two(&mut self, answer: Answer, bounds: &Bounds) {
        let told = if bounds.has(Mistake::TellsOneWaiter) { 1 } else { 2 };
        for waiter in self.queue.iter().take(told) {
            self.clients[*waiter].tell(answer);
        }
    }

    /// Hands the lock to the first waiter that listens. A caller that is the head is left to take
    /// it.
    fn grant(&mut self, me: Option<usize>, bounds: &Bounds) -> Option<usize> {
        while !self.queue.is_empty() {
            let head = self.queue.remove(0);
            if me == Some(head) {
                return me;
            }
            if self.clients[head].listens() || bounds.has(Mistake::GrantsToTheGone) {
                self.given_to_the_gone |= !self.clients[head].listens();
                let marked = !self.queue.is_empty() && !bounds.has(Mistake::GrantForgetsMark);
                self.put(head, CLAIM, marked, bounds);
                self.note_claim(head, bounds);
                self.clients[head].claims |= self.clients[head].frozen;
                self.clients[head].tell(Answer::Granted { age: 0 });
                if !bounds.has(Mistake::GrantTellsNoWaiter) {
                    self.tell_first_two(Answer::Next { left: CLAIM }, bounds);
                }
                return Some(head);
            }
        }
        None
    }

    fn grant_or_free(&mut self, me: Option<usize>, bounds: &Bounds) {
        if self.grant(me, bounds).is_none() {
            (self.lock, self.claim) = (None, None);
        }
    }

    /// The clients of the process of this one.
    pub(super) fn of_process(&mut self, one: usize) -> impl Iterator<Item = &mut Client> {
        let of_one = self.clients[one].of_one;
        let clients = self.clients.iter_mut().enumerate();
        clients.filter(move |(at, client)| *at == one || of_one && client.of_one).map(|(_, client)| client)
    }

    fn note_claim(&mut self, me: usize, bounds: &Bounds) {
        let noted = !self.queue.is_empty() && !bounds.of_one.is_empty();
        self.claim = (noted && !bounds.has(Mistake::ClaimIsNotNoted)).then_some(me);
    }

    /// A lease has ended without a release: the waiters of that process leave the queue, and are
    /// told.
    fn drop_stuck(&mut self, asker: Option<usize>) {
        let Some(stuck) = self.claim.take() else { return };
        let clients = &self.clients;
        let is_of = |at: usize| at == stuck || clients[stuck].of_one && clients[at].of_one;
        if asker.is_some_and(is_of) {
            return;
        }
        let before = self.queue.len();
        self.queue.retain(|waiter| !is_of(*waiter));
        self.dropped_without_cause |= self.queue.len() < before && self.clients[stuck].phase == Phase::Done;
        self.of_process(stuck).for_each(|client| client.tell(Answer::Gone));
    }

    /// A lock without a mark, although clients wait: it was taken past its queue.
    fn is_taken_past(&self, me: usize) -> bool {
        let unmarked = |lock: &Lock| !lock.marked && lock.owner != Owner::Stranger;
        self.lock.as_ref().is_some_and(unmarked) && self.queue.iter().any(|waiter| *waiter != me)
    }
}

/// The requests.
impl State {
    /// `SET NX PX`, with the fencing token in one script if the client wants one.
    pub(super) fn set_if_free(&mut self, me: usize, bounds: &Bounds) -> Answer {
        if self.lock.is_some() {
            return Answer::Taken { by_itself: self.is_owner(me) };
        }
        let is_awake = |client: &Client| {
            let waits = matches!(client.phase, Phase::Asleep | Phase::Joining);
            waits && client.up && !client.frozen
        };
        let newcomer = !self.queue.contains(&me);
        let passes = self.queue.iter().any(|waiter| *waiter != me && is_awake(&self.clients[*waiter]));
        self.newcomer_passed |= newcomer && passes && bounds.prompt && !self.order_is_lost;
        self.put(me, TTL, false, bounds);
        Answer::Set
    }

    /// `acquire.lua`. `again`: the client has waited already, so the lock is its own for a claim
    /// only.
    pub(super) fn join(&mut self, me: usize, again: bool, bounds: &Bounds) -> Answer {
        let lasts = if again { CLAIM } else { TTL };
        if self.is_owner(me) && !bounds.has(Mistake::JoinDoesNotCompare) {
            return self.find_own(me, lasts, bounds);
        }
        if self.is_free(bounds) || self.is_taken_past(me) {
            self.drop_stuck(Some(me));
        }
        if !self.is_free(bounds) {
            self.join_queue(me, bounds);
            let forgets = if again { Mistake::AgainDoesNotMark } else { Mistake::JoinDoesNotMark };
            if !bounds.has(forgets) {
                self.mark(bounds);
            }
            let is_stranger = self.lock.is_some_and(|lock| lock.owner == Owner::Stranger);
            return Answer::Busy { left: self.left(bounds), is_stranger };
        }
        if self.queue.is_empty() || bounds.has(Mistake::Barges) {
            self.passed_over |=
                self.queue.iter().any(|waiter| *waiter != me && self.clients[*waiter].listens());
            self.put(me, lasts, !self.queue.is_empty(), bounds);
            return Answer::Held { lasts };
        }
        self.join_queue(me, bounds);
        if bounds.has(Mistake::LeavesFree) {
            return Answer::Busy { left: TTL, is_stranger: false };
        }
        if self.grant(Some(me), bounds).is_some_and(|next| next != me) {
            return Answer::Busy { left: CLAIM, is_stranger: false };
        }
        self.put(me, lasts, !self.queue.is_empty() && !bounds.has(Mistake::OwnGrantForgetsMark), bounds);
        self.note_claim(me, bounds);
        if !bounds.has(Mistake::OwnGrantTellsNoWaiter) {
            self.tell_first_two(Answer::Next { left: lasts }, bounds);
        }
        Answer::Held { lasts }
    }

    /// An answer, or a grant, was lost: the lock is the caller's already.
    fn find_own(&mut self, me: usize, lasts: u8, bounds: &Bounds) -> Answer {
        self.leave_queue(me, bounds);
        if !bounds.has(Mistake::AgainRemovesMark) {
            self.mark(bounds);
        }
        let left = self.left(bounds);
        if let Some(lock) = &mut self.lock {
            lock.marked &= !bounds.has(Mistake::AgainRemovesMark);
            let ends = if bounds.has(Mistake::AgainShortens) { lasts } else { lasts.max(left) };
            lock.expires_in = ends + Self::grace(lock.marked, bounds);
        }
        Answer::Held { lasts }
    }

    /// Deletes the lock if its value is exactly the token.
    pub(super) fn delete_if_unmarked(&mut self, me: usize, bounds: &Bounds) -> Answer {
        let marked = self.lock.is_some_and(|lock| lock.marked) && !bounds.has(Mistake::DeletesMarked);
        if self.is_owner(me) && !marked {
            self.lock = None;
            return Answer::Released;
        }
        if bounds.one_script {
            return self.release(me, bounds);
        }
        Answer::NotDeleted
    }

    /// `release.lua`
    pub(super) fn release(&mut self, me: usize, bounds: &Bounds) -> Answer {
        let told = if bounds.has(Mistake::LeavingSecondTellsNoWaiter) { 1 } else { 2 };
        let was_told = self.queue.iter().take(told).any(|waiter| *waiter == me);
        if was_told && self.is_taken_past(me) {
            self.drop_stuck(Some(me));
        }
        self.leave_queue(me, bounds);
        self.claim = self.claim.filter(|_| !self.queue.is_empty());
        if self.is_owner(me) || (bounds.has(Mistake::ReleasesAnyLock) && self.lock.is_some()) {
            self.grant_or_free(Some(me), bounds);
        } else if was_told && !bounds.has(Mistake::LeavingTellsNoWaiter) {
            self.mark(bounds);
            self.tell_first_two(Answer::Next { left: self.left(bounds) }, bounds);
        }
        Answer::Released
    }

    /// A release that leaves the lock free for a client of another kind. `None`: no waiter listens.
    pub(super) fn release_and_leave_free(&mut self, me: usize, bounds: &Bounds) -> Option<Answer> {
        let listens = |waiter: &&usize| **waiter != me && self.clients[**waiter].listens();
        let _ = self.queue.first().filter(listens).filter(|_| self.is_owner(me))?;
        self.leave_queue(me, bounds);
        (self.lock, self.claim) = (None, None);
        self.order_is_lost = true;
        self.tell_first_two(Answer::Free, bounds);
        Some(Answer::Released)
    }

    /// Moves the expiry. `renews`: to a ttl from now; else to the end of a `min_hold`.
    pub(super) fn renew(&mut self, me: usize, renews: bool, bounds: &Bounds) -> Answer {
        let marked = self.lock.is_some_and(|lock| lock.marked);
        if !self.is_owner(me) || (marked && bounds.has(Mistake::RenewalComparesMark)) {
            return Answer::NotRenewed;
        }
        let lasts = if renews { TTL } else { CLAIM };
        let is_shorter = lasts < self.left(bounds);
        if let Some(lock) = &mut self.lock {
            lock.marked &= !bounds.has(Mistake::RenewalRemovesMark);
            let adds = !bounds.has(Mistake::RenewalAddsNoGrace);
            lock.expires_in = lasts + Self::grace(lock.marked && adds, bounds);
        }
        self.claim = self.claim.filter(|_| renews || !marked || bounds.has(Mistake::MinHoldKeepsClaim));
        if is_shorter && marked && !bounds.has(Mistake::MinHoldTellsNoWaiter) {
            self.tell_first_two(Answer::Next { left: lasts }, bounds);
        }
        if renews { Answer::Renewed } else { Answer::Released }
    }

    /// Only in [`Mistake::CountsFenceLater`].
    pub(super) fn fence(&mut self, me: usize) -> Answer {
        self.count_fence(me);
        Answer::Counted
    }

    /// `force_release.lua`
    pub(super) fn force_release(&mut self, bounds: &Bounds) {
        if self.is_in_grace(bounds) {
            self.drop_stuck(None);
        }
        self.grant_or_free(None, bounds);
    }
}
