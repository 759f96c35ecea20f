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
    /// [`State::holders`], which have a fencing token together. `limit`: how many all of them have
    /// allowed; only in [`Mistake::LimitSticks`].
    Counted {
        fence: u8,
        limit: u8,
    },
}

/// One of several that are inside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Holder {
    pub(super) client: usize,
    /// Ticks until its lease ends.
    pub(super) left: u8,
    /// Its process has let the lease end: for the rest of a `min_hold`.
    pub(super) lets_end: bool,
}

/// Zero is more than any other number.
fn least(one: u8, other: u8) -> u8 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Lock {
    pub(super) owner: Owner,
    /// The value ends with the mark: at least one client waits.
    pub(super) marked: bool,
    /// Ticks until the key expires.
    pub(super) expires_in: u8,
}

/// Who has entered in a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Admitted {
    Nobody,
    Others,
    /// The caller may enter.
    Caller,
}

/// What the scripts share.
impl State {
    pub(super) fn is_owner(&self, me: usize) -> bool {
        self.lock.is_some_and(|lock| lock.owner == Owner::Client(me))
    }

    /// Alone, or as one of several.
    pub(super) fn has_lock(&self, me: usize) -> bool {
        self.is_owner(me) || self.holders.iter().any(|holder| holder.client == me)
    }

    /// Ticks until a lease of this client ends.
    pub(super) fn lease_of(&self, me: usize) -> u8 {
        let alone = self.lock.filter(|_| self.is_owner(me));
        let alone = alone.map(|lock| lock.expires_in.saturating_sub(if lock.marked { GRACE } else { 0 }));
        let counted = self.holders.iter().find(|holder| holder.client == me).map(|holder| holder.left);
        alone.or(counted).unwrap_or(0)
    }

    pub(super) fn is_counted(&self) -> bool {
        self.lock.is_some_and(|lock| matches!(lock.owner, Owner::Counted { .. }))
    }

    /// The lease of a marked lock has ended, although its key is still there.
    pub(super) fn is_in_grace(&self, bounds: &Bounds) -> bool {
        let lock = self.lock.filter(|lock| lock.marked && !bounds.has(Mistake::NoGrace));
        lock.is_some_and(|lock| lock.expires_in <= GRACE)
    }

    pub(super) fn is_free(&self, bounds: &Bounds) -> bool {
        self.lock.is_none() || self.is_in_grace(bounds) || self.is_counted() && self.holders.is_empty()
    }

    /// How many may be inside while each of the holders is; 0 for any number.
    fn limit(&self) -> u8 {
        let numbers = self.holders.iter().map(|holder| self.clients[holder.client].number);
        numbers.fold(0, least)
    }

    /// Whether the scripts let this client in.
    fn has_room(&self, client: usize, bounds: &Bounds) -> bool {
        let Some(Lock { owner: Owner::Counted { limit, .. }, .. }) = self.lock else {
            return self.is_free(bounds);
        };
        let limit = match bounds.mistake {
            Some(Mistake::LimitSticks) => limit,
            Some(Mistake::OnlyNewcomerCounts) => 0,
            _ => self.limit(),
        };
        let client = &self.clients[client];
        let weight = if bounds.has(Mistake::NewcomerWeighsOne) { 1 } else { client.weight };
        self.is_allowed(&Client { weight, ..client.clone() }, limit, bounds)
    }

    fn is_allowed(&self, client: &Client, limit: u8, bounds: &Bounds) -> bool {
        let most = least(client.number, limit);
        let taken = self.holders.iter().map(|holder| self.weight_of(holder, bounds)).sum::<u8>();
        self.holders.is_empty() || (client.number != 1 && (most == 0 || taken + client.weight <= most))
    }

    fn weight_of(&self, holder: &Holder, bounds: &Bounds) -> u8 {
        if bounds.has(Mistake::HoldersWeighOne) { 1 } else { self.clients[holder.client].weight }
    }

    /// A waiter that runs sleeps, although there is room for the first one that listens.
    pub(super) fn leaves_room(&self, bounds: &Bounds) -> bool {
        let sleeps = |client: &&Client| client.phase == Phase::Asleep && client.runs();
        let Some(asleep) = self.clients.iter().find(sleeps) else { return false };
        if !self.is_counted() {
            return self.is_free(bounds);
        }
        let mut live = self.clone();
        live.holders.retain(|holder| holder.left > 0);
        let next = self.queue.iter().map(|waiter| &self.clients[*waiter]).find(|client| client.listens());
        live.is_allowed(next.unwrap_or(asleep), live.limit(), bounds)
    }

    fn grace(marked: bool, bounds: &Bounds) -> u8 {
        if marked && !bounds.has(Mistake::NoGrace) { GRACE } else { 0 }
    }

    /// Ticks until the lease of the lock ends.
    fn left(&self, bounds: &Bounds) -> u8 {
        self.lock.map_or(0, |lock| lock.expires_in.saturating_sub(Self::grace(lock.marked, bounds)))
    }

    /// Ticks until there may be room for this client.
    fn left_for(&self, client: usize, bounds: &Bounds) -> u8 {
        if !self.is_counted() {
            return self.left(bounds);
        }
        let weighed = |holder: &Holder| (holder.left, self.weight_of(holder, bounds));
        let mut ends: Vec<(u8, u8)> = self.holders.iter().map(weighed).collect();
        ends.sort_unstable();
        let client = &self.clients[client];
        let most = least(client.number, self.limit()).max(1);
        let mut taken = ends.iter().map(|(_, weight)| weight).sum::<u8>() + client.weight;
        let makes_room = |(_, weight): &&(u8, u8)| {
            taken -= weight;
            taken <= most
        };
        ends.iter().find(makes_room).map_or(0, |(left, _)| *left)
    }

    fn put(&mut self, me: usize, lasts: u8, marked: bool, bounds: &Bounds) {
        let expires_in = lasts + Self::grace(marked, bounds);
        self.lock = Some(Lock { owner: Owner::Client(me), marked, expires_in });
        self.holders.clear();
        self.order_is_lost &= !(self.queue.is_empty() || marked);
        self.note_turn(me);
        if self.clients[me].wants_fence && !bounds.has(Mistake::CountsFenceLater) {
            self.count_fence(me);
        }
    }

    fn note_turn(&mut self, me: usize) {
        self.slept = 0;
        let latest = self.clients.iter().map(|client| client.turn).max();
        self.clients[me].turn = latest.unwrap_or(0) + 1;
    }

    fn count_fence(&mut self, me: usize) {
        let highest = self.clients.iter().map(|client| client.fence).max();
        self.clients[me].fence = highest.unwrap_or(0) + 1;
    }

    /// One more is inside. The key is never marked: its grace does not depend on waiters.
    fn enter(&mut self, me: usize, lasts: u8, bounds: &Bounds) {
        let number = self.clients[me].number;
        if number == 1 {
            let marked = !self.queue.is_empty();
            return self.put(me, lasts, marked, bounds);
        }
        let grace = if bounds.has(Mistake::NoGraceForCounted) { 0 } else { GRACE };
        let mut lock = Lock {
            owner: Owner::Counted { fence: 0, limit: number },
            marked: false,
            expires_in: lasts + grace,
        };
        match self.lock {
            Some(Lock { owner: Owner::Counted { fence, limit }, expires_in, .. })
                if !self.holders.is_empty() =>
            {
                let limit = least(limit, number);
                lock.owner = Owner::Counted { fence, limit };
                if !bounds.has(Mistake::KeyEndsWithLatest) {
                    lock.expires_in = lock.expires_in.max(expires_in);
                }
                self.clients[me].fence = fence;
            }
            _ => {
                let counted = self.clients.iter().filter(|client| client.number != 1);
                let before =
                    counted.map(|client| client.fence).max().filter(|_| bounds.has(Mistake::PhaseKeepsFence));
                self.count_fence(me);
                let fence = before.filter(|fence| *fence > 0).unwrap_or(self.clients[me].fence);
                self.clients[me].fence = fence;
                lock.owner = Owner::Counted { fence, limit: number };
                if !bounds.has(Mistake::CountedKeepsClaim) {
                    self.claim = None;
                }
            }
        }
        if let Owner::Counted { limit, .. } = &mut lock.owner
            && !bounds.has(Mistake::LimitSticks)
        {
            *limit = 0;
        }
        self.lock = Some(lock);
        self.holders.retain(|holder| holder.client != me);
        self.holders.push(Holder { client: me, left: lasts, lets_end: false });
        self.order_is_lost = false;
        self.note_turn(me);
    }

    /// Reads who is inside: those whose lease is over leave.
    fn look(&mut self, asker: Option<usize>, bounds: &Bounds) {
        if !self.is_counted() || bounds.has(Mistake::ExpiryStaysCounted) {
            return;
        }
        let over: Vec<Holder> = self.holders.extract_if(.., |holder| holder.left == 0).collect();
        for holder in over {
            let is_stuck = !holder.lets_end || bounds.has(Mistake::MinHoldKeepsClaim);
            if is_stuck && !bounds.of_one.is_empty() && !bounds.has(Mistake::ClaimIsNotNoted) {
                self.drop_process(holder.client, asker);
            }
        }
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

    /// Tells the first two waiters how long what is in front of them lasts. One may be dead, or
    /// stuck.
    fn tell_first_two(&mut self, bounds: &Bounds) {
        self.tell_first_two_of(|state, waiter| Answer::Next { left: state.left_for(waiter, bounds) }, bounds);
    }

    fn tell_first_two_of(&mut self, what: impl Fn(&Self, usize) -> Answer, bounds: &Bounds) {
        let told = if bounds.has(Mistake::TellsOneWaiter) { 1 } else { 2 };
        for place in 0..told.min(self.queue.len()) {
            let waiter = self.queue[place];
            let answer = what(self, waiter);
            self.clients[waiter].tell(answer);
        }
    }

    /// Lets the first waiters in that listen, as long as there is room. A caller that is the head
    /// and has room is left to enter.
    fn admit_waiters(&mut self, me: Option<usize>, bounds: &Bounds) -> Admitted {
        let mut result = Admitted::Nobody;
        while let Some(head) = self.queue.first().copied() {
            let listens = self.clients[head].listens() || bounds.has(Mistake::GrantsToTheGone);
            if me != Some(head) && !listens {
                if self.is_counted() && bounds.has(Mistake::DeadHeadStays) {
                    return result;
                }
                self.queue.remove(0);
                continue;
            }
            if !self.has_room(head, bounds) {
                return result;
            }
            if me == Some(head) {
                self.queue.remove(0);
                return Admitted::Caller;
            }
            if result == Admitted::Others && bounds.has(Mistake::LetsInOne) {
                return result;
            }
            self.queue.remove(0);
            self.grant(head, bounds);
            result = Admitted::Others;
        }
        result
    }

    /// To a waiter that has not asked: its process may stand still.
    fn grant(&mut self, head: usize, bounds: &Bounds) {
        self.given_to_the_gone |= !self.clients[head].listens();
        self.enter(head, if bounds.has(Mistake::GrantLastsTtl) { TTL } else { CLAIM }, bounds);
        if self.is_owner(head) {
            self.note_claim(head, bounds);
            if let Some(lock) = self.lock.as_mut().filter(|_| bounds.has(Mistake::GrantForgetsMark)) {
                (lock.marked, lock.expires_in) = (false, CLAIM);
            }
        }
        if self.clients[head].frozen {
            let clients = &self.clients;
            let claims = |at: usize| clients[at].of_one && clients[at].claims && !self.has_lock(at);
            self.claims_again |= clients[head].of_one && (0..clients.len()).any(claims);
            self.clients[head].claims = true;
        }
        self.clients[head].tell(Answer::Granted { age: 0 });
    }

    /// Lets in those that wait, or leaves the lock free.
    fn let_in_or_free(&mut self, bounds: &Bounds) {
        let admitted = self.admit_waiters(None, bounds);
        if self.is_free(bounds) {
            (self.lock, self.claim) = (None, None);
        }
        if admitted == Admitted::Others && !bounds.has(Mistake::GrantTellsNoWaiter) {
            self.tell_first_two(bounds);
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

    /// A lease has ended without a release: the waiters of that process leave the queue, and get a
    /// message.
    fn evict_stalled(&mut self, asker: Option<usize>) {
        if let Some(stuck) = self.claim.take() {
            self.drop_process(stuck, asker);
        }
    }

    fn drop_process(&mut self, stuck: usize, asker: Option<usize>) {
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
        let unmarked = |lock: &Lock| !lock.marked && matches!(lock.owner, Owner::Client(_));
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

    /// `acquire.lua` and `acquire_counted.lua`. `again`: the client has waited already, so the lock is its own
    /// for a claim only.
    pub(super) fn join(&mut self, me: usize, again: bool, bounds: &Bounds) -> Answer {
        let lasts = if again && !bounds.has(Mistake::AgainLastsTtl) { CLAIM } else { TTL };
        self.look(Some(me), bounds);
        if self.has_lock(me) && !bounds.has(Mistake::JoinDoesNotCompare) {
            return self.find_own(me, lasts, bounds);
        }
        if self.is_free(bounds) || self.is_taken_past(me) {
            self.evict_stalled(Some(me));
        }
        if !self.is_free(bounds) && !self.is_counted() {
            self.join_queue(me, bounds);
            let forgets = if again { Mistake::AgainDoesNotMark } else { Mistake::JoinDoesNotMark };
            if !bounds.has(forgets) {
                self.mark(bounds);
            }
            let is_stranger = self.lock.is_some_and(|lock| lock.owner == Owner::Stranger);
            return Answer::Busy { left: self.left_for(me, bounds), is_stranger };
        }
        if (self.queue.is_empty() || bounds.has(Mistake::Barges)) && self.has_room(me, bounds) {
            self.passed_over |=
                self.queue.iter().any(|waiter| *waiter != me && self.clients[*waiter].listens());
            self.enter(me, lasts, bounds);
            self.clients[me].claims |= again && self.clients[me].frozen;
            return Answer::Held { lasts };
        }
        self.join_queue(me, bounds);
        if bounds.has(Mistake::LeavesFree) {
            return Answer::Busy { left: TTL, is_stranger: false };
        }
        let admitted = self.admit_waiters(Some(me), bounds);
        if admitted != Admitted::Caller {
            if admitted == Admitted::Others && !bounds.has(Mistake::GrantTellsNoWaiter) {
                self.tell_first_two(bounds);
            }
            return Answer::Busy { left: self.left_for(me, bounds).max(1), is_stranger: false };
        }
        self.enter(me, lasts, bounds);
        self.clients[me].claims |= again && self.clients[me].frozen;
        if self.is_owner(me) {
            self.note_claim(me, bounds);
            if let Some(lock) = self.lock.as_mut().filter(|_| bounds.has(Mistake::OwnGrantForgetsMark)) {
                (lock.marked, lock.expires_in) = (false, lasts);
            }
        } else {
            let _ = self.admit_waiters(None, bounds);
        }
        if !bounds.has(Mistake::OwnGrantTellsNoWaiter) {
            self.tell_first_two(bounds);
        }
        Answer::Held { lasts }
    }

    /// An answer, or a grant, was lost: the lock is the caller's already.
    fn find_own(&mut self, me: usize, lasts: u8, bounds: &Bounds) -> Answer {
        self.leave_queue(me, bounds);
        if let Some(holder) = self.holders.iter_mut().find(|holder| holder.client == me) {
            let ends = if bounds.has(Mistake::CountedAskShortens) { lasts } else { lasts.max(holder.left) };
            (holder.left, holder.lets_end) = (ends, false);
            self.keep_key(ends);
            return Answer::Held { lasts };
        }
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

    /// The key of a counted lock outlives a holder that has so many ticks left.
    fn keep_key(&mut self, left: u8) {
        if let Some(lock) = &mut self.lock {
            lock.expires_in = lock.expires_in.max(left + GRACE);
        }
    }

    /// `release.lua` and `release_counted.lua`
    pub(super) fn release(&mut self, me: usize, bounds: &Bounds) -> Answer {
        let told = if bounds.has(Mistake::LeavingSecondTellsNoWaiter) { 1 } else { 2 };
        let was_told = self.queue.iter().take(told).any(|waiter| *waiter == me);
        if was_told && self.is_taken_past(me) {
            self.evict_stalled(Some(me));
        }
        self.look(Some(me), bounds);
        self.leave_queue(me, bounds);
        self.claim = self.claim.filter(|_| !self.queue.is_empty());
        if self.is_counted() {
            self.leave(me, was_told, bounds);
        } else if self.is_owner(me) || (bounds.has(Mistake::ReleasesAnyLock) && self.lock.is_some()) {
            self.lock = None;
            self.let_in_or_free(bounds);
        } else if was_told && !bounds.has(Mistake::LeavingTellsNoWaiter) {
            self.mark(bounds);
            self.tell_first_two(bounds);
        }
        Answer::Released
    }

    /// Leaves the holders, or has left the queue in front of others.
    fn leave(&mut self, me: usize, was_told: bool, bounds: &Bounds) {
        let mine = self.holders.iter().find(|holder| holder.client == me).map(|holder| holder.left);
        self.holders.retain(|holder| holder.client != me);
        let was_inside = mine.is_some();
        if !was_inside && bounds.has(Mistake::ReleaseLowersCount) {
            self.holders.pop();
        }
        if was_inside && bounds.has(Mistake::ReleaseDeletesKey) {
            self.lock = None;
            self.holders.clear();
        }
        let mut admitted = Admitted::Nobody;
        if was_inside || !bounds.has(Mistake::LeavingLetsNobodyIn) {
            admitted = self.admit_waiters(None, bounds);
        }
        if self.is_free(bounds) {
            (self.lock, self.claim) = (None, None);
        }
        let is_silent = match admitted {
            Admitted::Nobody if was_inside => bounds.has(Mistake::HolderLeavesSilently),
            Admitted::Nobody => !was_told || bounds.has(Mistake::LeavingTellsNoWaiter),
            Admitted::Others | Admitted::Caller => bounds.has(Mistake::GrantTellsNoWaiter),
        };
        if is_silent {
            return;
        }
        // If it was to end before there is room, nothing changes for a waiter.
        let known = mine.filter(|_| admitted == Admitted::Nobody && !was_told).unwrap_or(TTL);
        for waiter in self.queue.iter().take(2).copied().collect::<Vec<_>>() {
            let left = self.left_for(waiter, bounds);
            if left <= known {
                self.clients[waiter].tell(Answer::Next { left });
            }
        }
    }

    /// A release that leaves the lock free for a client of another kind. `None`: no waiter listens.
    pub(super) fn release_and_leave_free(&mut self, me: usize, bounds: &Bounds) -> Option<Answer> {
        let listens = |waiter: &&usize| **waiter != me && self.clients[**waiter].listens();
        let is_last = self.is_owner(me) || self.holders.len() == 1 && self.has_lock(me);
        let _ = self.queue.first().filter(listens).filter(|_| is_last)?;
        self.leave_queue(me, bounds);
        (self.lock, self.claim) = (None, None);
        self.holders.clear();
        self.order_is_lost = true;
        self.tell_first_two_of(|_, _| Answer::Free, bounds);
        Some(Answer::Released)
    }

    /// Moves the expiry. `renews`: to a ttl from now; else to the end of a `min_hold`.
    pub(super) fn renew(&mut self, me: usize, renews: bool, bounds: &Bounds) -> Answer {
        if self.is_counted() {
            return self.stay(me, renews, bounds);
        }
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
            self.tell_first_two(bounds);
        }
        if renews { Answer::Renewed } else { Answer::Released }
    }

    /// `renew_counted.lua`. A holder whose lease is over, and for which nobody was let in yet, is still
    /// inside.
    fn stay(&mut self, me: usize, renews: bool, bounds: &Bounds) -> Answer {
        if !renews {
            self.look(Some(me), bounds);
        }
        let Some(holder) = self.holders.iter_mut().find(|holder| holder.client == me) else {
            return Answer::NotRenewed;
        };
        holder.left = if renews { TTL.max(holder.left) } else { CLAIM };
        holder.lets_end = !renews;
        let left = holder.left;
        if !bounds.has(Mistake::RenewalLeavesKey) {
            self.keep_key(left);
        }
        if !renews && !bounds.has(Mistake::MinHoldTellsNoWaiter) {
            self.tell_first_two(bounds);
        }
        if renews { Answer::Renewed } else { Answer::Released }
    }

    /// Only in [`Mistake::CountsFenceLater`].
    pub(super) fn fence(&mut self, me: usize) -> Answer {
        self.count_fence(me);
        Answer::Counted
    }

    /// `force_release.lua`
    pub(super) fn force_release(&mut self, was_in_grace: bool, bounds: &Bounds) {
        if was_in_grace {
            self.evict_stalled(None);
        }
        self.let_in_or_free(bounds);
    }
}
