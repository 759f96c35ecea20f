//! A held lock: its lease, who has it, and what its release asks for.
//!
//! A lock that the server has not confirmed by the deadline of its lease is lost: its [renewals] go on
//! until then. A lock that is held for longer than a moment is watched, and repaired when its key
//! expires early. Where it is passed on within the process, the renewals go on under the token that
//! the server knows ([`Successors`]).
//!
//! [renewals]: super::renewals

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::downgrade::Downgrade;
use super::local_successors::{NAMED_AFTER, NextHolder, Successors};
use super::releasing::Releasing;
use super::renewals::Renewals;
use super::ttl::Ttl;
use super::waiting::Waiting;
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::lease::{Lease, safe_until};
use crate::base::outcome::LostReason;
use crate::base::telemetry;
use crate::base::token::Token;
use crate::engine::command::{Ask, Caller, Response};
use crate::engine::hold_times::HoldStart;
use crate::engine::protocol::{Action, Disconnected, Kind, Refusal, Releases, Request};

/// A lock that is held for longer is watched: two more commands, to notice a loss at once. A watch
/// that others of its process have ended begins again after that time.
pub(super) const LOOKS_AFTER: Duration = Duration::from_millis(100);

/// The longest that a released lock waits for the reply to the reservation of fencing tokens.
const LONGEST_RESERVATION: Duration = Duration::from_millis(100);

/// Why a lock that limits how many bodies begin is not shared.
const LIMITS_A_RATE: &str =
    "its `min_hold` limits how many bodies begin in that time: leave out `permits` or `min_hold`";

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the lock")]
pub(super) struct Held {
    name: Arc<str>,
    pub(super) lease: Arc<Lease>,
    pub(super) successors: Successors,
    pub(super) ttl: Ttl,
    /// The ttl in its place in the queue, and in those of its followers.
    place_ttl: Duration,
    pub(super) renewals: Renewals,
    retention: Retention,
    /// The hold of the caller who has the lock now.
    pub(super) hold: HoldStart,
    pub(super) watch: Watch,
    pub(super) queue: QueueSeen,
    stage: Stage,
    /// The caller, until the replicas have the lock.
    deliver_to: Option<Caller>,
    /// Its holder leads, or has led.
    is_led: bool,
    /// Another attempt of this process has got the lock, before this one knew of its loss.
    is_former: bool,
    /// It is as in the requests of the waiter, because it is part of the place in the queue.
    fenced: bool,
    pub(super) kind: Kind,
    /// It is boxed because most locks are never downgraded.
    downgrade: Option<Box<Downgrade>>,
    /// Its place in the queue, if it has one, is that of an exclusive lock.
    was_exclusive: bool,
}

/// The stage of the end of a held lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Its caller has it.
    Held,
    /// Its holder has released it, and the next waiter waits for its fencing token until then.
    AwaitsReservation { until: Moment },
    /// Its lease has ended early, and its body may still run: the attempt ends when its guard
    /// releases it, or at this time, when the key has expired.
    Closed { until: Moment },
}

/// The purpose of the timer of a held lock. The first that is due counts, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeldTimer {
    /// Its lease has ended early, and its key has expired.
    Closed,
    /// Its lease is over.
    Expired,
    /// A caller of a ttl change has waited for too long.
    LateChange,
    /// No fencing tokens were reserved in time.
    NoReservation,
    /// A caller of a downgrade has waited for too long, or a pause is over.
    Downgrade,
    /// A watch.
    Look,
    Renew,
}

impl Held {
    /// A lock that the server keeps since then: for the claim if it `claims`, else for the ttl.
    #[inline]
    pub(super) fn new(
        ask: &Ask,
        token: Token,
        lease: Arc<Lease>,
        since: Moment,
        claims: bool,
        queue: QueueSeen,
    ) -> Self {
        let mut held = Self {
            name: Arc::clone(&ask.name),
            lease,
            successors: Successors::of(token),
            ttl: Ttl::new(ask.ttl),
            place_ttl: ask.ttl,
            renewals: Renewals::new(since, ask.renew, claims),
            retention: Retention::of(ask),
            hold: HoldStart { kind: ask.hold_kind, since },
            watch: Watch::from(since.after(LOOKS_AFTER)),
            queue,
            stage: Stage::Held,
            deliver_to: None,
            is_led: false,
            is_former: false,
            fenced: ask.fenced,
            kind: ask.kind.granted(),
            downgrade: None,
            was_exclusive: false,
        };
        if held.wants_renewal() {
            held.renewals.start(ask.ttl);
        }
        held
    }

    /// The release of a token that has the lock no longer, if it may have a place in the queue.
    pub(super) fn release_place(&mut self, now: Moment, before: Token) -> Option<Releasing> {
        if !self.queue.clear_asks() {
            return None;
        }
        let request = Request { token: before, ttl: self.place_ttl, ..self.request(Action::Release) };
        Some(Releasing::new(now, Arc::clone(self.lease.key()), request, self.place_ttl).leaving(now))
    }

    /// The time from which the key is free after a release.
    pub(super) fn free_after(&self, now: Moment) -> Moment {
        self.keep_until().into_iter().fold(now, Ord::max)
    }

    /// After an earlier release, the key stays until then.
    fn keep_until(&self) -> Option<Moment> {
        self.retention.until(|| self.lease.begun().unwrap_or(self.hold.since))
    }

    /// No body has run.
    pub(super) fn set_unrun(&mut self) {
        self.retention.clear();
        self.kind = self.kind.unrun();
    }

    /// Its holder leaves it to whoever redeems its ticket: after its release, the key stays until
    /// then.
    pub(super) fn leave_until(&mut self, until: Moment) {
        self.retention.ticket_until = Some(until);
    }

    /// Ends the lease of a lock that its guard gives back, or leaves to a ticket.
    pub(super) fn end_lease(&self) {
        let is_left = self.retention.ticket_until.is_some();
        self.lease.end(if is_left { LostReason::HandedOver } else { LostReason::Released });
    }

    fn timers(&self) -> [(HeldTimer, Option<Moment>); 7] {
        let (closed, reserved) = match self.stage {
            Stage::Held => (None, None),
            Stage::AwaitsReservation { until } => (None, Some(until)),
            Stage::Closed { until } => (Some(until), None),
        };
        [
            (HeldTimer::Closed, closed),
            (HeldTimer::Expired, self.lease.deadline()),
            (HeldTimer::LateChange, self.ttl.answers_at()),
            (HeldTimer::NoReservation, reserved),
            (HeldTimer::Downgrade, self.downgrade.as_ref().and_then(|downgrade| downgrade.due())),
            (HeldTimer::Look, self.watch.next),
            (HeldTimer::Renew, self.renewals.next()),
        ]
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.timers().into_iter().filter_map(|(_, at)| at).min()
    }

    /// Returns what its timer rings for. A lease that has ended is over at once, however that came.
    pub(super) fn due_timer(&self, now: Moment) -> Option<HeldTimer> {
        if !self.is_closed() && self.lease.remaining(now).is_none() {
            return Some(HeldTimer::Expired);
        }
        let is_due = |(timer, at): (HeldTimer, Option<Moment>)| (at? <= now).then_some(timer);
        self.timers().into_iter().find_map(is_due)
    }

    pub(super) fn set_former(&mut self) {
        self.is_former = true;
    }

    /// True when an operator means it, by the [name](Token::naming) of the lock's value, or any
    /// holder.
    pub(super) fn is_named(&self, name: &Token) -> bool {
        *name == Token::empty()
            || self.kind.is_counted() && *name == Token::naming_phase(self.lease.fence())
            || name.named().is_some_and(|token| self.successors.has(&token))
    }

    pub(super) fn is_former(&self) -> bool {
        self.is_former
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

    pub(super) fn wants_renewal(&self) -> bool {
        let is_due = self.renewals.is_wanted() || !self.renewals.is_claimed() || self.kind.needs_renewals();
        !self.is_closed() && (is_due || self.ttl.wants_renewal())
    }

    /// One of several that is not renewed sends renewals, too, because nothing else tells it that the
    /// server has lost its place: for no more than what is left of its lease.
    fn only_looks_for_its_place(&self) -> bool {
        !self.renewals.is_wanted() && self.renewals.is_claimed() && self.ttl.is_confirmed()
    }

    /// The answer to a watch: the lock is held, and its key lasts for so long. True when another
    /// client has made the key expire before the lease is over, so that it is renewed now.
    pub(super) fn repair(&mut self, now: Moment, left: Duration) -> bool {
        let expires_early = self.lease.deadline().is_some_and(|ends| ends > now.after(left));
        expires_early && self.wants_renewal() && self.renewals.repair(now)
    }

    pub(super) fn request(&self, action: Action) -> Request {
        self.request_of(self.kind_now().held(&self.lease), action)
    }

    /// While nobody knows whether a downgrade was executed, the requests of one of several do for both kinds.
    fn kind_now(&self) -> &Kind {
        if self.may_be_shared() { &Kind::SHARED } else { &self.kind }
    }

    /// Nobody knows whether its downgrade was executed.
    pub(super) fn may_be_shared(&self) -> bool {
        self.downgrade.as_ref().is_some_and(|downgrade| downgrade.may_be_done())
    }

    /// A downgrade was sent, and is to be answered.
    pub(super) fn is_downgrading(&self) -> bool {
        self.downgrade.as_ref().is_some_and(|downgrade| downgrade.is_sent())
    }

    /// Why it cannot be downgraded.
    pub(super) fn not_shared(&self) -> Option<&'static str> {
        self.kind.cannot_be_shared().or(self.limits_rate().then_some(LIMITS_A_RATE))
    }

    /// Why it gives no ticket.
    pub(super) fn gives_no_ticket(&self) -> Option<&'static str> {
        self.kind_now().gives_no_ticket()
    }

    /// The caller has its answer `by` then.
    pub(super) fn downgrade(
        &mut self,
        now: Moment,
        caller: oneshot::Sender<Result<(), LockError>>,
        io_timeout: Duration,
    ) {
        self.downgrade.get_or_insert_default().add(now.after(io_timeout), caller);
    }

    /// A downgrade is to be sent.
    pub(super) fn wants_downgrade(&mut self, now: Moment) -> bool {
        !self.is_closed() && self.downgrade.as_mut().is_some_and(|downgrade| downgrade.is_to_be_sent(now))
    }

    /// The downgrade is being sent. The server knows who has the lock.
    pub(super) fn set_downgrading(&mut self) {
        self.successors.settle();
        if let Some(downgrade) = &mut self.downgrade {
            downgrade.set_sent();
        }
    }

    pub(super) fn downgrade_request(&self, now: Moment) -> Request {
        let action = Action::Downgrade { place_ttl: self.place_ttl };
        Request { ttl: self.renews_for(now), ..self.request_of(Kind::SHARED.held(&self.lease), action) }
    }

    /// The server has executed the downgrade that was sent then.
    pub(super) fn set_shared(&mut self, sent: Moment, phase: u64) {
        self.lease.set_fence(phase);
        self.lease.set_shared();
        (self.kind, self.was_exclusive) = (Kind::SHARED, true);
        if let Some(downgrade) = self.downgrade.take() {
            downgrade.confirm();
        }
        if self.renewals.next().is_none() && self.wants_renewal() {
            // From now on nothing else tells it that the server has lost its place.
            self.renewals.go_on(sent, self.ttl.current(), true, false);
        }
    }

    pub(super) fn set_downgrade_refused(&mut self, now: Moment, refusal: &Refusal) {
        let key = Arc::clone(self.lease.key());
        if let Some(downgrade) = &mut self.downgrade {
            downgrade.set_refused(now, &key, refusal.clone());
        }
        self.downgrade.take_if(|downgrade| downgrade.is_over());
    }

    pub(super) fn answer_late_downgrades(&mut self, now: Moment, trouble: Option<&Disconnected>) {
        let key = Arc::clone(self.lease.key());
        if let Some(downgrade) = &mut self.downgrade {
            downgrade.answer_late(now, &key, trouble);
        }
        self.downgrade.take_if(|downgrade| downgrade.is_over());
    }

    /// The connection broke.
    pub(super) fn disconnect(&mut self) {
        if let Some(downgrade) = &mut self.downgrade {
            downgrade.disconnect();
        }
        self.set_elsewhere();
    }

    /// The next request may reach another server, which may not have the last ones.
    pub(super) fn set_elsewhere(&mut self) {
        self.successors.set_elsewhere();
        if self.was_exclusive && self.downgrade.is_none() && !self.is_closed() {
            self.downgrade = Some(Box::new(Downgrade::elsewhere()));
        }
    }

    /// True when "not held" is an answer about the kind of lock that it has now.
    pub(super) fn is_lost_by(&self, request: &Request) -> bool {
        (request.kind.is_counted() || !self.kind_now().is_counted()) && self.successors.are_lost_by(request)
    }

    /// The release of its place in the queue, which the release of one of several does not name.
    pub(super) fn release_exclusive_place(&self, now: Moment) -> Option<Releasing> {
        if !(self.was_exclusive || self.may_be_shared()) || !self.queue.may_have_place() {
            return None;
        }
        let request = Request { ttl: self.place_ttl, ..self.request_of(Kind::EXCLUSIVE, Action::Release) };
        Some(Releasing::new(now, Arc::clone(self.lease.key()), request, self.place_ttl).leaving(now))
    }

    fn request_of(&self, kind: Kind, action: Action) -> Request {
        let (name, token) = (Arc::clone(&self.name), self.successors.token().clone());
        let (keeps, fenced) = (self.retention.keeps, self.fenced || action == Action::Draw);
        Request { keeps, fenced, kind, ..Request::new(action, name, token, self.ttl.current()) }
    }

    /// The renewal that tells the server, too, who has the lock.
    pub(super) fn renewal_request(&mut self, now: Moment) -> Request {
        let passed_on = self.successors.name();
        let mut request = Request { ttl: self.renews_for(now), ..self.request(self.ttl.renewal()) };
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
        let ttl = self.ttl.current();
        if self.renewals.is_wanted() || !self.ttl.is_confirmed() {
            return ttl;
        }
        let left = if self.only_looks_for_its_place() {
            self.lease.remaining(now).unwrap_or_default()
        } else {
            self.renewals.left(now, ttl)
        };
        left.max(Duration::from_millis(1))
    }

    /// A renewal is being sent. One that shortens the ttl shortens the lease from now on, because the
    /// server may execute it at any time.
    pub(super) fn set_renewing(&mut self, now: Moment) {
        if let Some(ends) = self.ttl.set_sent(now) {
            self.lease.shorten(ends);
        }
        self.renewals.set_sent(now, self.ttl.current());
    }

    /// The server confirmed the `nth` ttl, which was sent at `sent`. False when the lease is over.
    pub(super) fn set_renewed(&mut self, now: Moment, sent: Moment, nth: u32, ttl: Duration) -> bool {
        let Some(confirmed) = self.ttl.confirmed_by(nth) else {
            return self.lease.check(now).is_some();
        };
        let safe = self.ttl.ends_after(confirmed).into_iter().fold(safe_until(sent, ttl), Ord::min);
        // The server keeps what it has for as long as before.
        let before = self.lease.deadline().filter(|_| self.only_looks_for_its_place());
        if !self.lease.renew(now, before.into_iter().fold(safe, Ord::max)) {
            return false;
        }
        self.renewals.set_claimed();
        self.ttl.confirm(confirmed);
        // If the lock was passed on after that request, another renewal names the holder.
        let (is_due, is_kept) = (self.wants_renewal(), self.successors.has_unnamed_holder());
        self.renewals.go_on(sent, self.ttl.current(), is_due, is_kept);
        true
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

    /// True when the lock may be handed over without the server: its kind allows it, no `min_hold` and
    /// no ttl change is open, and there is time for the next renewal.
    pub(super) fn may_be_handed_over(&self, now: Moment) -> bool {
        let lasts = self.renewals.lasts(self.ttl.current());
        // Where it is a former one, the server has given the lock to another attempt, which passes it on.
        let goes_back = self.is_former || !self.kind.may_be_passed_on() || self.limits_rate();
        !goes_back
            && self.downgrade.is_none()
            && self.lease.remaining(now).is_some_and(|left| left > lasts / 2)
            && self.keep_until().is_none_or(|until| until <= now)
            && self.ttl.is_confirmed()
    }

    /// It limits how many bodies begin in a time.
    fn limits_rate(&self) -> bool {
        !self.retention.keeps.is_zero()
    }

    /// Ends the lease, but keeps its deadline for the next waiter of this process.
    pub(super) fn await_reservation(&mut self, now: Moment) {
        if let Some(deadline) = self.lease.deadline() {
            let (key, fence) = (Arc::clone(self.lease.key()), self.lease.fence());
            self.replace_lease(Lease::new(key, fence, deadline, None));
            self.stage = Stage::AwaitsReservation { until: now.after(LONGEST_RESERVATION) };
        }
    }

    /// Ends the lease early, and leaves the key, because the body may still run. False when no lease
    /// was left to end.
    pub(super) fn close(&mut self, now: Moment, reason: LostReason) -> bool {
        if self.stage != Stage::Held || self.lease.check(now).is_none() {
            return false;
        }
        self.lease.end(reason);
        self.renewals.suspend();
        self.watch = Watch::default();
        self.ttl.drop_changes();
        self.downgrade.iter_mut().for_each(|downgrade| downgrade.drop_callers());
        // A renewal may still arrive at the server.
        self.stage = Stage::Closed { until: now.after(self.may_last(now)) };
        true
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.stage, Stage::Closed { .. })
    }

    /// Its lease has ended early because of the servers, and its loss was reported then.
    pub(super) fn is_reported_lost(&self) -> bool {
        self.is_closed() && self.lease.lost_reason() != Some(LostReason::ManagerClosed)
    }

    pub(super) fn awaits_reservation(&self) -> bool {
        matches!(self.stage, Stage::AwaitsReservation { .. })
    }

    /// For how long the key may last on the server.
    fn may_last(&self, now: Moment) -> Duration {
        self.ttl.may_last(now).saturating_add(self.retention.keeps)
    }

    /// The server has named the waiters that come next.
    pub(super) fn set_followers(&mut self, now: Moment, secrets: &str) {
        self.successors.set_followers(now, secrets, self.place_ttl);
    }

    /// Passing the lock on to this waiter, the first of this process, costs no request to the
    /// server.
    pub(super) fn next_holder(&mut self, now: Moment, next: &Waiting) -> NextHolder {
        let ask = &next.ask;
        let fits = ask.renew && ask.ttl == self.ttl.current() && ask.hold.keeps().is_zero();
        if fits { self.successors.next_holder(now, next) } else { NextHolder::Server }
    }

    /// Ends the lease and begins that of the next holder with the same deadline. `None` without
    /// time left.
    pub(super) fn hand_over(&mut self, now: Moment, next: &Waiting, fence: u64) -> Option<Arc<Lease>> {
        let ask = &next.ask;
        self.successors.push(&next.token);
        let deadline = self.lease.deadline()?;
        self.replace_lease(ask.lease(fence, now, deadline));
        self.retention = Retention::of(ask);
        self.hold = HoldStart { kind: ask.hold_kind, since: now };
        self.stage = Stage::Held;
        // The renewal then tells the server who has the lock.
        self.renewals.hand_over(now, ask.renew, now.after(NAMED_AFTER));
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
        let mut request = self.request_of(self.kind_now().released(&self.lease, early), Action::Release);
        request.ttl = may_last.saturating_sub(self.retention.keeps);
        request.set_passed_on(self.successors.for_release());
        // A leader that resigns would be the first to find its own lock free, and lead again.
        request.releases = if self.is_led { 0 } else { self.successors.releases(now) };
        // The process of a caller that does not wait may end next. The plain command may find a waiter of
        // which this process has not heard, and would have to be followed by the script.
        request.release = if response.is_none() { Releases::Last } else { Releases::Usual };
        if !self.queue.needs_script() && request.release == Releases::Usual {
            request.use_commands();
        }
        if self.queue.may_have_place() || !request.other_tokens().is_empty() {
            request.ttl = self.place_ttl;
        }
        let mut releasing = Releasing::new(now, Arc::clone(self.lease.key()), request, may_last);
        if self.queue.may_have_place() {
            releasing = releasing.leaving(now);
        }
        if let Some(keep_until) = self.keep_until().filter(|_| early || self.limits_rate()) {
            releasing = releasing.keeping(keep_until);
            if self.retention.ticket_until.is_some() {
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

/// How long the server keeps the key after a release.
struct Retention {
    /// So long from the begin of the body.
    min_hold: Option<Duration>,
    /// A `min_hold` that the server keeps also where the process dies or the lease ends, or zero.
    keeps: Duration,
    /// Its holder has left the lock to whoever redeems its ticket, which ends then.
    ticket_until: Option<Moment>,
}

impl Retention {
    fn of(ask: &Ask) -> Self {
        Self { min_hold: ask.hold.min, keeps: ask.hold.keeps(), ticket_until: None }
    }

    fn until(&self, begun: impl Fn() -> Moment) -> Option<Moment> {
        self.ticket_until.or_else(|| self.min_hold.map(|min_hold| begun().after(min_hold)))
    }

    /// The key goes with the release.
    fn clear(&mut self) {
        (self.min_hold, self.ticket_until) = (None, None);
    }
}

/// The watch of a key: whether the server notifies the holder of changes. Most bodies end before
/// the first watch.
#[derive(Default)]
pub(super) struct Watch {
    /// The time of the next watch that no renewal brings.
    next: Option<Moment>,
    /// The first watch was sent.
    is_on: bool,
}

impl Watch {
    fn from(first: Moment) -> Self {
        Self { next: Some(first), is_on: false }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The watch that is due is sent.
    pub(super) fn begin(&mut self) {
        (self.next, self.is_on) = (None, true);
    }

    /// One of several that have the lock has left it, or its queue, over the same connection. That
    /// may have written the key, which ends the watch, and the server does not tell of a client's own
    /// changes. True when its timer is to be set: a watch is due once for many that leave.
    pub(super) fn begin_again_later(&mut self, now: Moment) -> bool {
        let is_due = self.is_on && self.next.is_none();
        if is_due {
            self.next = Some(now.after(LOOKS_AFTER));
        }
        is_due
    }
}

/// The state of the queue on the server, as far as it is known.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the queue")]
#[derive(Clone, Copy, Default)]
pub(super) struct QueueSeen {
    /// The lock is marked: others wait.
    marked: bool,
    /// The server may have written when it was granted, behind the token.
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

impl QueueSeen {
    /// The reply to the last of so many requests granted the lock. `waited`: after a wait, or for a
    /// ticket.
    pub(super) fn by_reply(asks: u32, waited: bool) -> Self {
        Self { waited: waited || asks > 1, grant_may_follow: asks > 1, ..Self::default() }
    }

    /// A push granted it. `asks`: a request of its waiter crossed that push.
    pub(super) fn by_push(marked: bool, asks: bool) -> Self {
        Self { marked, waited: true, asks, ..Self::default() }
    }

    pub(super) fn grant_may_follow(self) -> bool {
        self.grant_may_follow
    }

    /// The attempt may have a place in the queue.
    pub(super) fn may_have_place(self) -> bool {
        self.asks
    }

    /// A plain command does not release the lock: it finds another value than the token, and only
    /// its reply says so.
    fn needs_script(self) -> bool {
        self.marked || self.waited || self.changed
    }

    /// The request that the attempt sent as a waiter is answered, with a place if `has_place`: it had
    /// lost the lock by then, or did not have it yet. True when it may have written the key.
    pub(super) fn set_answered(&mut self, has_place: bool) -> bool {
        std::mem::replace(&mut self.asks, has_place)
    }

    fn clear_asks(&mut self) -> bool {
        std::mem::take(&mut self.asks)
    }

    /// A waiter of this process has a place behind the holder. True when its request has marked the
    /// key, as no other one did before.
    pub(super) fn set_marked(&mut self) -> bool {
        !std::mem::replace(&mut self.marked, true)
    }

    /// Another client has changed the key.
    pub(super) fn set_changed(&mut self) {
        self.changed = true;
    }
}
