//! The watchdog: a held lock, its lease, and the time of its renewals.
//!
//! The first renewal is due after a third of the ttl, and it is repeated until the deadline of the
//! lease. A lock that the server has not confirmed by then is lost. A lock that was granted by a
//! push lasts for the claim only, so its first renewal claims the ttl; most bodies end before. A
//! lock that is held for longer than a moment is watched, and repaired when its key expires early.
//!
//! A change of the ttl goes along with each renewal until one is confirmed. A shorter ttl shortens
//! the lease from when it was sent, because the server may execute it at any time. Where the lock
//! is passed on within the process, the renewals go on under the token that the server knows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::local_successors::{Successors, TOLD_AFTER, Turn};
use super::releasing::Releasing;
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::lease::{Lease, safe_until};
use crate::base::outcome::LostReason;
use crate::base::telemetry;
use crate::base::token::Token;
use crate::engine::command::{Ask, Caller, Extension, Response};
use crate::engine::hold_times::Hold;
use crate::engine::lock_table::lock::waiting::Waiting;
use crate::engine::protocol::{Action, CLAIM, Disconnected, Kind, Refusal, Releases, Reply, Request, Run};

/// A lock that is held for longer is watched: two more commands, to notice a loss at once. A watch
/// that others of its process have ended begins again after that time.
pub(super) const LOOKS_AFTER: Duration = Duration::from_millis(100);

/// The longest that a released lock waits for the reply to the reservation of fencing tokens.
const LONGEST_RESERVATION: Duration = Duration::from_millis(100);

/// What a caller hears whose ttl change is not confirmed in time.
const UNCONFIRMED: &str = "the new ttl is not confirmed, and goes along with the next renewals";

/// Renewals that are due within this time go out in one batch, which wakes the engine once.
const BATCH: Duration = Duration::from_millis(10);

/// The time of the renewal: after a third of the time from `since`, or a little before.
fn renewal_after(since: Moment, lasts: Duration) -> Moment {
    since.after(lasts / 3).rounded_down(BATCH.min(lasts / 100))
}

/// A change of the ttl, until the server has confirmed it or a later one.
struct TtlChange {
    /// The key may last longer on the server than the new ttl.
    shortens: bool,
    /// After a change that shortens was sent, the key may expire then, unless the server has
    /// confirmed another ttl.
    ends: Option<Moment>,
    /// The caller that waits for the answer, and until when.
    caller: Option<(Moment, oneshot::Sender<Result<(), LockError>>)>,
    /// Why the server has refused it for now.
    refused: Option<Arc<str>>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the lock")]
pub(super) struct Held {
    name: Arc<str>,
    lease: Arc<Lease>,
    /// The server has the lock under this one, as far as it has answered.
    token: Token,
    ttl: Duration,
    /// The ttl in its place in the queue, and in those of its followers.
    place_ttl: Duration,
    /// After a shorter ttl, which the server may not have taken: by then the key has expired by the
    /// longer one.
    longer_until: Option<Moment>,
    /// False: only a claim and an [`Extension`] renew.
    renew: bool,
    /// False while the lock, granted by a push, expires after the claim instead of the ttl.
    claimed: bool,
    /// Since when it is held at the earliest. What is not renewed lasts for its ttl from then on.
    since: Moment,
    /// After a release before its end, the key stays until then. It counts from the begin of the body.
    min_hold: Option<Duration>,
    /// A `min_hold` that the server keeps also where the process dies or the lease ends, or zero.
    keeps: Duration,
    /// Its holder has left it to whoever redeems its ticket, which ends then: the key stays until then.
    left_until: Option<Moment>,
    /// Its holder leads, or has led.
    is_led: bool,
    /// The hold of the caller who has the lock now.
    hold: Hold,
    next_renewal: Option<Moment>,
    /// The time when the last renewal was sent; before the first one, since when the lock is held.
    renewal_sent: Moment,
    /// The time of the next watch that no renewal brings. Most bodies end before the first one.
    next_look: Option<Moment>,
    /// The first watch was sent.
    is_watched: bool,
    /// The number of ttl changes so far.
    changes: u32,
    /// The changes that are not confirmed, in their order.
    ttl_changes: Vec<TtlChange>,
    /// It is boxed because most locks are not passed on.
    successors: Option<Box<Successors>>,
    /// Another attempt of this process has got the lock, before this one knew of its loss.
    is_former: bool,
    /// Its holder has released it, and the next waiter waits for its fencing token until then.
    reserved_by: Option<Moment>,
    /// Its manager is shut down and its lease is over: the attempt ends when its guard releases it,
    /// or at this time, when the key has expired.
    closed: Option<Moment>,
    /// The caller, until the replicas have the lock.
    deliver_to: Option<Caller>,
    queue: QueueSeen,
    /// It is as in the requests of the waiter, because it is part of the place in the queue.
    fenced: bool,
    kind: Kind,
}

/// What the timer of a held lock is for. The first that is due counts, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeldTimer {
    /// Its manager is shut down, and its key has expired.
    Closed,
    /// Its lease is over.
    Expired,
    /// A caller of a ttl change has waited for too long.
    LateChange,
    /// No fencing tokens were reserved in time.
    NoReservation,
    /// A watch.
    Look,
    Renew,
}

/// What is known of the queue on the server.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the queue")]
#[derive(Clone, Copy, Default)]
struct QueueSeen {
    /// The lock is marked: others wait.
    marked: bool,
    /// It was waited for before.
    waited: bool,
    /// Another client has changed the key, perhaps to mark it.
    changed: bool,
    /// A request of this attempt as a waiter is unanswered, or was answered with a place: it may be
    /// in the queue.
    asks: bool,
    /// It was asked for more than once, and a reply told of it: a push that tells of the same grant
    /// may follow.
    grant_may_follow: bool,
}

impl Held {
    /// A lock that was asked for at `sent`, and that the server keeps for the ttl.
    pub(super) fn asked(ask: &Ask, token: Token, lease: Arc<Lease>, sent: Moment) -> Self {
        let mut held = Self::handed_over(ask, token, lease, sent);
        held.claimed = true;
        held.queue.waited = false;
        held.next_renewal = held.wants_renewal().then(|| renewal_after(sent, ask.ttl));
        held
    }

    /// A lock that was granted by a push at `since`, and that the server keeps for the claim. Most
    /// bodies end before the renewal that claims it.
    #[inline]
    pub(super) fn handed_over(ask: &Ask, token: Token, lease: Arc<Lease>, since: Moment) -> Self {
        Self {
            name: Arc::clone(&ask.name),
            lease,
            token,
            ttl: ask.ttl,
            place_ttl: ask.ttl,
            longer_until: None,
            renew: ask.renew,
            claimed: false,
            since,
            next_renewal: Some(renewal_after(since, CLAIM.min(ask.ttl))),
            renewal_sent: since,
            min_hold: ask.min_hold,
            keeps: ask.keeps,
            left_until: None,
            is_led: false,
            hold: Hold { kind: ask.hold_kind, since },
            next_look: Some(since.after(LOOKS_AFTER)),
            is_watched: false,
            changes: 0,
            ttl_changes: Vec::new(),
            successors: None,
            is_former: false,
            reserved_by: None,
            closed: None,
            deliver_to: None,
            queue: QueueSeen { waited: true, ..QueueSeen::default() },
            fenced: ask.fenced,
            kind: ask.kind.granted(),
        }
    }

    /// A push granted it. `asks`: a request of its waiter crossed that push.
    pub(super) fn pushed(mut self, marked: bool, asks: bool) -> Self {
        self.queue = QueueSeen { marked, waited: true, asks, ..QueueSeen::default() };
        self
    }

    /// The reply to the last of so many requests granted it.
    pub(super) fn answered_after(mut self, asks: u32) -> Self {
        // Then the server may have written when it was granted, behind the token, so it needs the
        // script to release it.
        self.queue.waited |= asks > 1;
        self.queue.grant_may_follow = asks > 1;
        self
    }

    /// A ticket was redeemed for it. The server has written when, behind the token.
    pub(super) fn redeemed(mut self) -> Self {
        self.queue.waited = true;
        self
    }

    pub(super) fn grant_may_follow(&self) -> bool {
        self.queue.grant_may_follow
    }

    /// The request that it sent as a waiter is answered, with a place in the queue if `has_place`:
    /// it had lost the lock by then, or did not have it yet. It may have written the key, which
    /// ends the watch: true when a watch is due.
    pub(super) fn set_answered(&mut self, has_place: bool) -> bool {
        std::mem::replace(&mut self.queue.asks, has_place) && self.is_watched()
    }

    pub(super) fn may_be_queued(&self) -> bool {
        self.queue.asks
    }

    /// A waiter of this process has a place behind it. Its request has marked the key, unless
    /// another one did before: that ended the watch, and the server does not tell of a client's own
    /// changes. True when a watch is due.
    pub(super) fn set_waited_for(&mut self) -> bool {
        !std::mem::replace(&mut self.queue.marked, true) && self.is_watched()
    }

    /// The release of a token that has the lock no longer, if it may have a place in the queue.
    pub(super) fn take_leave(&mut self, now: Moment, before: Token) -> Option<Releasing> {
        if !std::mem::take(&mut self.queue.asks) {
            return None;
        }
        let request = Request { token: before, ttl: self.place_ttl, ..self.request(Action::Release) };
        Some(Releasing::new(now, Arc::clone(self.lease.key()), request, self.place_ttl).leaving(now))
    }

    pub(super) fn is_watched(&self) -> bool {
        self.is_watched && !self.is_closed()
    }

    /// Another client has changed the key. Its release is no plain command then: that one finds a
    /// marked key with another value, and hears of it only from the reply.
    pub(super) fn set_changed(&mut self) {
        self.queue.changed = true;
    }

    /// One of several that have the lock has left it, or its queue, over the same connection. That
    /// may have written the key, which ends the watch, and the server does not tell of a client's own
    /// changes. True when its timer is to be set: a watch is due once for many that leave.
    pub(super) fn looks_again(&mut self, now: Moment) -> bool {
        let is_due = self.is_watched() && self.next_look.is_none();
        if is_due {
            self.next_look = Some(now.after(LOOKS_AFTER));
        }
        is_due
    }

    /// The time from which the key is free after a release.
    pub(super) fn free_after(&self, now: Moment) -> Moment {
        self.keep_until().into_iter().fold(now, Ord::max)
    }

    /// After an earlier release, the key stays until then.
    fn keep_until(&self) -> Option<Moment> {
        let begun = || self.lease.begun().unwrap_or(self.hold.since);
        self.left_until.or_else(|| self.min_hold.map(|min_hold| begun().after(min_hold)))
    }

    /// It limits how many bodies begin in a time.
    pub(super) fn limits_rate(&self) -> bool {
        !self.keeps.is_zero()
    }

    /// No body has run.
    pub(super) fn set_unrun(&mut self) {
        (self.min_hold, self.left_until) = (None, None);
        self.kind = self.kind.unrun();
    }

    /// What has become of its body, which runs once.
    pub(super) fn set_run(&mut self, run: Run) {
        self.kind.set_run(run);
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its holder leaves it to whoever redeems its ticket: after its release, the key stays until
    /// then.
    pub(super) fn leave_until(&mut self, until: Moment) {
        self.left_until = Some(until);
    }

    /// Ends the lease of a lock that its guard gives back, or leaves to a ticket.
    pub(super) fn end_lease(&self) {
        self.lease.end(if self.left_until.is_some() { LostReason::HandedOver } else { LostReason::Released });
    }

    fn timers(&self) -> [(HeldTimer, Option<Moment>); 6] {
        let answers = self.ttl_changes.iter().filter_map(|change| Some(change.caller.as_ref()?.0));
        [
            (HeldTimer::Closed, self.closed),
            (HeldTimer::Expired, self.lease.deadline()),
            (HeldTimer::LateChange, answers.min()),
            (HeldTimer::NoReservation, self.reserved_by),
            (HeldTimer::Look, self.next_look),
            (HeldTimer::Renew, self.next_renewal),
        ]
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.timers().into_iter().filter_map(|(_, at)| at).min()
    }

    /// What its timer rings for. A lease that has ended is over at once, however that came.
    pub(super) fn rings_for(&self, now: Moment) -> Option<HeldTimer> {
        if !self.is_closed() && self.lease.remaining(now).is_none() {
            return Some(HeldTimer::Expired);
        }
        let is_due = |(timer, at): (HeldTimer, Option<Moment>)| (at? <= now).then_some(timer);
        self.timers().into_iter().find_map(is_due)
    }

    pub(super) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// The server has the lock under this one, as far as it has answered.
    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    /// The hold of the caller who has the lock now.
    pub(super) fn hold(&self) -> Hold {
        self.hold
    }

    /// The phase of the lock, which ends when the last one leaves; 0 for one that it has alone.
    pub(super) fn phase(&self) -> u64 {
        if self.kind.is_counted() { self.lease.fence() } else { 0 }
    }

    pub(super) fn is_former(&self) -> bool {
        self.is_former
    }

    pub(super) fn set_former(&mut self) {
        self.is_former = true;
    }

    /// The caller gets the lock once the replicas have it.
    pub(super) fn deliver_later(&mut self, caller: Caller) {
        self.deliver_to = Some(caller);
    }

    pub(super) fn awaits_replicas(&self) -> bool {
        self.deliver_to.is_some()
    }

    /// The caller that does not have the lock yet.
    pub(super) fn take_caller(&mut self) -> Option<Caller> {
        self.deliver_to.take()
    }

    /// The request for a fencing token.
    pub(super) fn draw(&self) -> Request {
        Request { fenced: true, ..self.request(Action::Draw) }
    }

    /// The caller has its answer `by` then.
    pub(super) fn change_ttl(&mut self, now: Moment, extension: Extension, by: Moment) {
        // The server may not have executed an earlier, shorter change: this one must shorten, too.
        let shortens = extension.ttl < self.ttl || self.shortens();
        self.longer_until = self.longer_until.max(Some(now.after(self.ttl)));
        self.ttl = extension.ttl;
        self.changes = self.changes.saturating_add(1);
        let caller = Some((by, extension.caller));
        self.ttl_changes.push(TtlChange { shortens, ends: None, caller, refused: None });
    }

    /// Answers the callers of ttl changes that have waited for too long. The next renewals carry
    /// the new ttl all the same. True when there was one.
    pub(super) fn answer_late_changes(&mut self, now: Moment, trouble: Option<&Disconnected>) -> bool {
        let key = self.lease.key();
        let mut is_late = false;
        for change in &mut self.ttl_changes {
            let Some((_, caller)) = change.caller.take_if(|(by, _)| *by <= now) else {
                continue;
            };
            is_late = true;
            let error = if let Some(trouble) = trouble {
                trouble.error(Some(Arc::clone(key)))
            } else {
                let reason = change.refused.as_deref().unwrap_or("Redis gave no answer in time");
                LockError::unavailable(key, format!("{reason}; {UNCONFIRMED}"))
            };
            let _ = caller.send(Err(error));
        }
        is_late
    }

    /// For how long the key may last on the server.
    fn may_last(&self, now: Moment) -> Duration {
        let lasts = self.longer_until.map_or(self.ttl, |until| self.ttl.max(until.since(now)));
        lasts.saturating_add(self.keeps)
    }

    fn shortens(&self) -> bool {
        self.ttl_changes.last().is_some_and(|last| last.shortens)
    }

    /// True for each token under which the server may have this lock.
    pub(super) fn has(&self, token: &Token) -> bool {
        self.token == *token || self.successors.as_ref().is_some_and(|successors| successors.has(token))
    }

    /// True when this request was sent for it.
    pub(super) fn has_sent(&self, request: &Request) -> bool {
        self.has(&request.token) || self.has(request.holder())
    }

    /// The token of its holder. The server may not know it yet.
    pub(super) fn holder(&self) -> &Token {
        self.successors.as_ref().and_then(|successors| successors.holder()).unwrap_or(&self.token)
    }

    /// The server is being told who has it, or was told and has not answered.
    pub(super) fn is_being_told(&self) -> bool {
        self.successors.as_ref().is_some_and(|successors| successors.last_named().is_some())
    }

    /// True when "not held" means that it is lost. A request that was sent before the server was
    /// told who has it may be executed behind that one.
    pub(super) fn is_lost_by(&self, request: &Request) -> bool {
        let named = self.successors.as_ref().and_then(|successors| successors.last_named());
        request.holder() == named.unwrap_or(&self.token)
    }

    /// The server has executed this renewal. Returns the token under which it had the lock, if it
    /// has it under another one now.
    pub(super) fn set_told(&mut self, request: &Request) -> Option<Token> {
        self.successors.as_mut()?.set_told(request, &mut self.token)
    }

    pub(super) fn wants_renewal(&self) -> bool {
        let is_wanted = |ttl: &TtlChange| ttl.shortens || ttl.caller.is_some();
        let is_due = self.renew || !self.claimed || self.kind.is_counted();
        !self.is_closed() && (is_due || self.ttl_changes.iter().any(is_wanted))
    }

    /// One of several that is not renewed has nothing but its renewals to tell it that the server
    /// has lost its place: a watch compares what all of them have in common. So it sends them, too,
    /// for no more than what is left of its lease.
    fn only_looks_for_its_place(&self) -> bool {
        !self.renew && self.claimed && self.ttl_changes.is_empty()
    }

    /// The answer to a watch: the lock is held, and its key lasts for so long. True when another
    /// client has made the key expire before the lease is over. It is renewed then, but not more
    /// often than every [`LOOKS_AFTER`].
    pub(super) fn repair(&mut self, now: Moment, left: Duration) -> bool {
        let expires_early = self.lease.deadline().is_some_and(|ends| ends > now.after(left));
        if !expires_early || !self.wants_renewal() {
            return false;
        }
        let from = self.renewal_sent.after(LOOKS_AFTER);
        if now < from {
            self.next_renewal = Some(self.next_renewal.map_or(from, |due| due.min(from)));
        }
        now >= from
    }

    /// That watch is sent.
    pub(super) fn take_look(&mut self) {
        (self.next_look, self.is_watched) = (None, true);
    }

    pub(super) fn request(&self, action: Action) -> Request {
        self.request_of(self.kind.held(&self.lease), action)
    }

    fn request_of(&self, kind: Kind, action: Action) -> Request {
        let (name, token) = (Arc::clone(&self.name), self.token.clone());
        let (keeps, fenced) = (self.keeps, self.fenced);
        Request { keeps, fenced, kind, ..Request::new(action, name, token, self.ttl) }
    }

    /// A renewal with the current ttl.
    pub(super) fn renewal(&self) -> Action {
        Action::Renew { nth: self.changes, shortens: self.shortens() }
    }

    /// The renewal that tells the server, too, who has the lock.
    pub(super) fn renewal_request(&mut self, now: Moment) -> Request {
        let passed_on = self.successors.as_mut().and_then(|successors| successors.name());
        let mut request = Request { ttl: self.renews_for(now), ..self.request(self.renewal()) };
        request.set_passed_on(passed_on);
        let has_begun = self.lease.begun().is_some();
        if has_begun && self.limits_rate() && self.keep_until().is_some_and(|until| until <= now) {
            // What was to be kept is over: another ttl is enough.
            request.keeps = Duration::ZERO;
        }
        request
    }

    /// The renewal that claims a lock which is not renewed gives it the rest of its ttl.
    fn renews_for(&self, now: Moment) -> Duration {
        if self.renew || !self.ttl_changes.is_empty() {
            return self.ttl;
        }
        let left = if self.only_looks_for_its_place() {
            self.lease.remaining(now).unwrap_or_default()
        } else {
            self.ttl.saturating_sub(now.since(self.since))
        };
        left.max(Duration::from_millis(1))
    }

    /// A renewal is being sent. The next one is due without a reply, too. A renewal that shortens
    /// the ttl shortens the lease from now on, because the server may execute it at any time.
    pub(super) fn set_renewing(&mut self, now: Moment) {
        self.renewal_sent = now;
        if let Some(last) = self.ttl_changes.last_mut().filter(|last| last.shortens) {
            let ends = *last.ends.get_or_insert(safe_until(now, self.ttl));
            self.lease.shorten(ends);
        }
        let lasts = if self.claimed { self.ttl } else { self.ttl.min(CLAIM) };
        self.next_renewal = Some(renewal_after(now, lasts));
    }

    /// The server confirmed the `nth` ttl, which was sent at `sent`. False when the lease is over.
    pub(super) fn set_renewed(&mut self, now: Moment, sent: Moment, nth: u32, ttl: Duration) -> bool {
        // Over a quorum one reply may overtake another: a later change is confirmed already.
        let later = usize::try_from(self.changes.saturating_sub(nth)).unwrap_or(usize::MAX);
        let Some(confirmed) = self.ttl_changes.len().checked_sub(later) else {
            return self.lease.check(now).is_some();
        };
        let ends = self.ttl_changes.iter().skip(confirmed).filter_map(|ttl| ttl.ends);
        let safe = ends.fold(safe_until(sent, ttl), Ord::min);
        // The server keeps what it has for as long as before.
        let before = self.lease.deadline().filter(|_| self.only_looks_for_its_place());
        if !self.lease.renew(now, before.into_iter().fold(safe, Ord::max)) {
            return false;
        }
        self.claimed = true;
        for (_, caller) in self.ttl_changes.drain(..confirmed).filter_map(|ttl| ttl.caller) {
            let _ = caller.send(Ok(()));
        }
        let next = self.wants_renewal().then(|| renewal_after(sent, self.ttl));
        // It was passed on after that request: the next one is due sooner.
        let sooner = self.successors.as_ref().filter(|successors| successors.is_to_be_told());
        self.next_renewal = sooner.and(self.next_renewal).into_iter().chain(next).min();
        true
    }

    /// The server refused. Until an operator acts: callers of ttl changes get an error.
    pub(super) fn set_refused(&mut self, refusal: &Refusal) {
        for change in &mut self.ttl_changes {
            if let Refusal::Permanent(_) = refusal {
                if let Some((_, caller)) = change.caller.take() {
                    let _ = caller.send(Err(refusal.clone().error(Some(Arc::clone(self.lease.key())))));
                }
            } else {
                change.refused = Some(refusal.clone().words());
            }
        }
    }

    /// A body that does not run must not lead, and cannot step down: the lock is not renewed until
    /// the body gives a sign of life, so that it ends unless the body does so in time.
    pub(super) fn is_led_by_a_blocked_body(&self, now: Moment) -> bool {
        let Some(heartbeat) = self.lease.heartbeat() else { return false };
        let Some(blocked_for) = heartbeat.blocked_for(now) else { return false };
        if heartbeat.is_to_be_reported() {
            telemetry::leader_blocked(self.lease.key(), blocked_for);
        }
        true
    }

    /// The server refused, or the body of a leader is blocked, for now: renew again soon.
    pub(super) fn retry(&mut self, now: Moment) {
        let pause = (self.ttl / 10).clamp(Duration::from_millis(5), Duration::from_secs(1));
        self.next_renewal = Some(now.after(pause));
    }

    /// No renewal is due before the next connection, where it is sent at once, or an [`Extension`].
    pub(super) fn suspend(&mut self) {
        self.next_renewal = None;
    }

    /// True when the lock may be handed over without the server: no `min_hold` and no ttl change is
    /// open, and there is time for the next renewal.
    pub(super) fn may_be_handed_over(&self, now: Moment) -> bool {
        let lasts = if self.claimed { self.ttl } else { self.ttl.min(CLAIM) };
        self.lease.remaining(now).is_some_and(|left| left > lasts / 2)
            && self.keep_until().is_none_or(|until| until <= now)
            && self.ttl_changes.is_empty()
    }

    /// Ends the lease, but keeps its deadline for the next waiter of this process.
    pub(super) fn await_reservation(&mut self, now: Moment) {
        if let Some(deadline) = self.lease.deadline() {
            let (key, fence) = (Arc::clone(self.lease.key()), self.lease.fence());
            self.replace_lease(Lease::new(key, fence, deadline, None));
            self.reserved_by = Some(now.after(LONGEST_RESERVATION));
        }
    }

    /// Ends the lease for a shutdown, and leaves the key, because the body may still run. False
    /// when no lease was left to end.
    pub(super) fn close(&mut self, now: Moment) -> bool {
        if self.awaits_reservation() || self.is_closed() || self.lease.check(now).is_none() {
            return false;
        }
        self.lease.end(LostReason::ManagerClosed);
        (self.next_renewal, self.next_look) = (None, None);
        self.ttl_changes.clear();
        // A renewal may still arrive at the server.
        self.closed = Some(now.after(self.may_last(now)));
        true
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    pub(super) fn awaits_reservation(&self) -> bool {
        self.reserved_by.is_some()
    }

    /// The server has named the waiters that come next.
    pub(super) fn set_followers(&mut self, now: Moment, secrets: &str) {
        self.successors = Some(Box::new(Successors::named(now, secrets, self.place_ttl)));
    }

    /// True when fencing tokens for the next holders are to be reserved, with the request for them.
    pub(super) fn reserve(&mut self) -> bool {
        let is_new = self.successors.is_none();
        self.successors.get_or_insert_default();
        is_new
    }

    /// The reply to that request.
    pub(super) fn set_reserved(&mut self, reply: &Reply, count: u32) {
        if let Some(successors) = &mut self.successors {
            successors.set_reserved(reply, count);
        }
    }

    /// Passing the lock on to this waiter, the first of this process, costs no request to the
    /// server.
    pub(super) fn turn_of(&mut self, now: Moment, next: &Waiting) -> Turn {
        let fits = next.ask().renew && next.ask().ttl == self.ttl && next.ask().keeps.is_zero();
        let successors = self.successors.as_mut().filter(|_| fits);
        successors.map_or(Turn::Over, |successors| successors.turn_of(now, next))
    }

    /// The server has named followers.
    pub(super) fn has_followers(&self) -> bool {
        self.successors.as_ref().is_some_and(|successors| successors.are_followers())
    }

    /// Followers have places in the queue that must be given back.
    pub(super) fn owes_places(&self) -> bool {
        self.successors.as_ref().is_some_and(|successors| successors.has_places())
    }

    /// The next request may lead to another server, and another queue.
    pub(super) fn set_elsewhere(&mut self) {
        if let Some(successors) = &mut self.successors {
            successors.end();
            successors.tell_again(&mut self.token);
        }
    }

    /// Ends the lease and begins that of the next holder with the same deadline. `None` without
    /// time left.
    pub(super) fn hand_over(&mut self, now: Moment, next: &Waiting, fence: u64) -> Option<Arc<Lease>> {
        let ask = next.ask();
        self.successors.as_mut()?.push(next.token());
        let deadline = self.lease.deadline()?;
        self.replace_lease(ask.lease(fence, now, deadline));
        self.renew = ask.renew;
        (self.min_hold, self.keeps) = (ask.min_hold, ask.keeps);
        self.hold = Hold { kind: ask.hold_kind, since: now };
        self.reserved_by = None;
        // The renewal then tells the server who has the lock.
        self.next_renewal = Some(self.next_renewal.unwrap_or(now).min(now.after(TOLD_AFTER)));
        Some(Arc::clone(&self.lease))
    }

    pub(super) fn set_led(&mut self) {
        self.is_led = true;
    }

    fn replace_lease(&mut self, lease: Lease) {
        std::mem::replace(&mut self.lease, Arc::new(lease)).end(LostReason::Released);
    }

    /// `early`: the guard released it before it was lost.
    pub(super) fn release(
        &self,
        now: Moment,
        io_timeout: Duration,
        early: bool,
        response: Option<Response>,
    ) -> Releasing {
        let may_last = self.may_last(now);
        let mut request = self.request_of(self.kind.released(&self.lease, early), Action::Release);
        request.ttl = may_last.saturating_sub(self.keeps);
        if let Some(successors) = &self.successors {
            request.set_passed_on(successors.for_release());
            request.releases = successors.releases(now);
        }
        // A leader that resigns would be the first to find its own lock free, and lead again.
        if self.is_led {
            request.releases = 0;
        }
        let was_seen = self.queue.marked || self.queue.waited || self.queue.changed;
        // The process of a caller that does not wait may end next. The plain command may find a waiter of
        // which this process has not heard, and would have to be followed by the script.
        request.release = if response.is_none() { Releases::Last } else { Releases::Usual };
        if !was_seen && request.release == Releases::Usual {
            request.use_commands();
        }
        if self.may_be_queued() || !request.other_tokens().is_empty() {
            request.ttl = self.place_ttl;
        }
        let mut releasing = Releasing::new(now, Arc::clone(self.lease.key()), request, may_last);
        if self.may_be_queued() {
            releasing = releasing.leaving(now);
        }
        if let Some(keep_until) = self.keep_until().filter(|_| early || self.limits_rate()) {
            releasing = releasing.keeping(keep_until);
            if self.left_until.is_some() {
                releasing = releasing.for_a_ticket();
            }
        }
        if early {
            releasing = releasing.ending(self.lease.hold());
        }
        match response {
            Some(response) => releasing.answering(now.after(io_timeout), response),
            None => releasing,
        }
    }
}

impl Drop for Held {
    /// A lease that is no longer renewed must end, also at the end of the engine.
    fn drop(&mut self) {
        self.lease.end(LostReason::ManagerClosed);
        if let Some(caller) = self.deliver_to.take() {
            let _ = caller.send(self.lease.lost().into());
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
