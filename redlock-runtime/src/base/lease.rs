//! Leases: until when a holder may rely on its lock, on its own clock.
//!
//! The deadline is conservative: it counts from the instant *before* the request was sent, and
//! stops short of the ttl by the drift that the Redlock algorithm allows for, `ttl / 100 + 2 ms`
//! (<https://redis.io/docs/latest/develop/use/patterns/distributed-locks/>). The server may give
//! the lock away only after that.
//!
//! The end of a guard's lease, or of the first one to end where it holds several locks.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{self, AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::base::clock::{Clock, Moment};
use crate::base::error::LockError;
use crate::base::heartbeat::Heartbeat;
use crate::base::limit::Limit;
use crate::base::one_or_many::OneOrMany;
use crate::base::outcome::LostReason;
use crate::base::telemetry;

/// The shortest ttl that leaves room for a round trip and for the drift.
pub(crate) const MIN_TTL: Duration = Duration::from_millis(10);

/// The longest ttl: above 2^53 ms, Lua's numbers are no longer exact.
pub(crate) const MAX_TTL_MS: u64 = 1 << 53;

pub(crate) fn ttl_is_in_range(ttl: Duration) -> bool {
    ttl >= MIN_TTL && ttl.as_millis() <= u128::from(MAX_TTL_MS)
}

/// Until when a holder may rely on a lock of `ttl` whose request was sent at `sent`.
pub(crate) fn safe_until(sent: Moment, ttl: Duration) -> Moment {
    let drift = ttl / 100 + Duration::from_millis(2);
    sent.after(ttl.saturating_sub(drift))
}

/// One lease, shared by its guard (which checks) and the engine (which renews).
///
/// Once over, it stays over, with its first reason: a renewal that arrives late cannot revive it,
/// because its holder may have seen it end and stopped.
pub(crate) struct Lease {
    key: Arc<str>,
    /// How many may hold it together.
    limit: Limit,
    /// It was taken by one alone, and others may hold it beside that one from now on.
    is_shared: AtomicBool,
    /// Zero when no fencing token was drawn.
    fence: AtomicU64,
    /// No renewal goes beyond this.
    hold_until: Option<Moment>,
    /// See [`LeaseState`].
    state: AtomicU64,
    /// Made by the first waiter for the end: nothing waits for that of a guard that is only held.
    end_event: OnceLock<Arc<Notify>>,
    hold: telemetry::HoldOfLease,
    /// It is boxed because most locks are for no tick.
    tick: Option<Box<RunOfTick>>,
    /// For a tick, or for a body that runs once.
    is_run: bool,
    /// For a start under a rate, which its caller does not hold.
    is_start: bool,
    /// The signs of life of a leader. It is boxed because most locks are not those of an election.
    heartbeat: OnceLock<Box<Heartbeat>>,
    /// See [`Begin`].
    begun: AtomicU64,
}

/// When a body began whose `min_hold` counts from then on. Stored as one number.
#[derive(Clone, Copy)]
enum Begin {
    /// Nobody asks for it.
    Unnoted = 0,
    NotYet = 1,
}

/// The run of a tick under one lease.
struct RunOfTick {
    /// In ms since 1970.
    at_ms: u64,
    /// See [`TickEnd`].
    end: AtomicU8,
}

/// The end of a run of a tick, as a number.
#[derive(Clone, Copy)]
enum TickEnd {
    /// It goes on, or its guard was dropped without a release.
    None = 0,
    Well = 1,
    Failed = 2,
}

/// Stored as one number: the deadline in nanoseconds, or, below [`LostReason::CODES`], the reason
/// why the lease has ended.
#[derive(Clone, Copy)]
enum LeaseState {
    Until(Moment),
    Over(LostReason),
}

impl LeaseState {
    fn read(number: u64) -> Self {
        LostReason::of_code(number).map_or_else(|| Self::Until(Moment::from_nanos(number)), Self::Over)
    }

    fn number(self) -> u64 {
        match self {
            Self::Until(deadline) => deadline.to_nanos().max(LostReason::CODES),
            Self::Over(reason) => reason.code(),
        }
    }
}

impl Lease {
    /// No deadline, now or after a renewal, is later than `hold_until`.
    pub(crate) fn new(key: Arc<str>, fence: u64, deadline: Moment, hold_until: Option<Moment>) -> Self {
        let deadline = hold_until.into_iter().fold(deadline, Ord::min);
        let state = AtomicU64::new(LeaseState::Until(deadline).number());
        let hold = telemetry::HoldOfLease::default();
        let (limit, end_event, tick, is_run) = (Limit::ONE, OnceLock::new(), None, false);
        let is_start = false;
        let (heartbeat, begun) = (OnceLock::new(), (Begin::Unnoted as u64).into());
        let fence = fence.into();
        Self {
            key,
            limit,
            is_shared: AtomicBool::new(false),
            fence,
            hold_until,
            state,
            end_event,
            hold,
            tick,
            is_run,
            is_start,
            heartbeat,
            begun,
        }
    }

    /// Its holder leads, and is to give a sign of life within `max_blocked`, again and again.
    pub(crate) fn set_led(&self, now: Moment, max_blocked: Duration) {
        let _ = self.heartbeat.set(Box::new(Heartbeat::new(now, max_blocked)));
    }

    /// `None` unless its holder leads.
    pub(crate) fn heartbeat(&self) -> Option<&Heartbeat> {
        self.heartbeat.get().map(Box::as_ref)
    }

    /// True of a leader whose body has given no sign of life for too long.
    fn is_blocked(&self, now: Moment) -> bool {
        self.heartbeat().is_some_and(|heartbeat| heartbeat.blocked_for(now).is_some())
    }

    /// The lock is for this tick, in ms since 1970.
    pub(crate) fn set_tick(&mut self, at_ms: u64) {
        self.tick = Some(Box::new(RunOfTick { at_ms, end: (TickEnd::None as u8).into() }));
    }

    /// Its caller runs what later ones find done.
    pub(crate) fn set_run(&mut self) {
        self.is_run = true;
    }

    /// It is for a start under a rate.
    pub(crate) fn set_start(&mut self) {
        self.is_start = true;
    }

    /// True of a start under a rate: its caller holds nothing.
    pub(crate) fn is_start(&self) -> bool {
        self.is_start
    }

    /// From now on it notes when its body begins.
    pub(crate) fn notes_begin(&mut self) {
        self.begun = (Begin::NotYet as u64).into();
    }

    /// The caller has all that it has asked for, and goes on. `now` is asked for where that is noted.
    #[inline]
    pub(crate) fn begins(&self, now: impl FnOnce() -> Moment) {
        if self.begun.load(Ordering::Acquire) != Begin::Unnoted as u64 {
            self.begun.store(now().to_nanos().max(Begin::NotYet as u64), Ordering::Release);
        }
    }

    /// Returns when its body began, if that was noted.
    pub(crate) fn begun(&self) -> Option<Moment> {
        Some(self.begun.load(Ordering::Acquire))
            .filter(|nanos| *nanos > Begin::NotYet as u64)
            .map(Moment::from_nanos)
    }

    /// True of a lock for a tick, or for a body that runs once.
    pub(crate) fn is_run(&self) -> bool {
        self.is_run
    }

    /// The tick that it is for, in ms since 1970.
    pub(crate) fn tick(&self) -> Option<u64> {
        self.tick.as_ref().map(|run| run.at_ms)
    }

    /// Its guard releases it: the tick was run, unless its body has failed.
    pub(crate) fn ends_tick(&self) {
        self.set_tick_end(TickEnd::Well);
    }

    /// The body of the tick has failed.
    pub(crate) fn fails_tick(&self) {
        self.set_tick_end(TickEnd::Failed);
    }

    /// True when the tick was run to its end.
    pub(crate) fn has_ended_well(&self) -> bool {
        self.tick.as_ref().is_some_and(|run| run.end.load(Ordering::Acquire) == TickEnd::Well as u8)
    }

    /// The first end counts.
    fn set_tick_end(&self, end: TickEnd) {
        if let Some(run) = &self.tick {
            let none = TickEnd::None as u8;
            let _ = run.end.compare_exchange(none, end as u8, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// So many may hold it together.
    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Others may hold it, too, from now on.
    pub(crate) fn set_shared(&self) {
        self.is_shared.store(true, Ordering::Release);
        self.hold.downgrades();
    }

    /// Returns how many may hold it together.
    pub(crate) fn limit(&self) -> Limit {
        if self.is_shared.load(Ordering::Acquire) { Limit::NONE } else { self.limit }
    }

    /// The caller has the lock: from now on `hold` measures it.
    pub(crate) fn observed(&self, hold: &telemetry::ObservedHold) {
        self.hold.set(&self.key, hold, || self.lost_reason());
    }

    /// The user's key, without the prefix.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The fencing token of this grant; zero when none was drawn.
    pub(crate) fn fence(&self) -> u64 {
        self.fence.load(Ordering::Acquire)
    }

    /// A fencing token was drawn later.
    pub(crate) fn set_fence(&self, fence: u64) {
        self.fence.store(fence, Ordering::Release);
    }

    /// The time left at `now`; `None` when the lease has ended, or its deadline has passed.
    pub(crate) fn remaining(&self, now: Moment) -> Option<Duration> {
        Some(self.deadline()?.since(now)).filter(|left| !left.is_zero())
    }

    /// Returns what is left for a holder, or for an engine that acts on it: ends a lease whose deadline has
    /// passed, so that no renewal revives what was seen to be over.
    pub(crate) fn check(&self, now: Moment) -> Option<Duration> {
        let deadline = self.deadline()?;
        let left = deadline.since(now);
        if !left.is_zero() {
            return Some(left);
        }
        let reason = match self.hold_until {
            Some(limit) if limit == deadline => LostReason::MaxHold,
            _ if self.is_blocked(now) => LostReason::Blocked,
            _ => LostReason::Expired,
        };
        if !self.replace(LeaseState::Until(deadline), LeaseState::Over(reason)) {
            // A renewal or an end came in between.
            return self.check(now);
        }
        self.over(reason);
        None
    }

    /// True while a holder may rely on it; else as [`check`](Self::check).
    #[inline]
    pub(crate) fn lasts(&self, now: Moment) -> bool {
        // Each reason is a smaller number than any deadline.
        let number = self.state.load(Ordering::Acquire);
        (number > now.to_nanos() && number >= LostReason::CODES) || self.check(now).is_some()
    }

    /// Moves the deadline after a renewal. False when the lease has ended, which no renewal
    /// changes.
    pub(crate) fn renew(&self, now: Moment, deadline: Moment) -> bool {
        let deadline = self.hold_until.into_iter().fold(deadline, Ord::min);
        self.check(now).is_some() && self.change(LeaseState::Until(deadline))
    }

    /// Brings the deadline forward; a later one changes nothing.
    pub(crate) fn shorten(&self, deadline: Moment) {
        while let Some(old) = self.deadline().filter(|old| *old > deadline) {
            if self.replace(LeaseState::Until(old), LeaseState::Until(deadline)) {
                return;
            }
        }
    }

    /// Ends the lease now: lost, or about to be released.
    pub(crate) fn end(&self, reason: LostReason) {
        if self.change(LeaseState::Over(reason)) {
            self.over(reason);
        }
    }

    /// The caller's hold.
    pub(crate) fn hold(&self) -> telemetry::ObservedHold {
        self.hold.get()
    }

    fn over(&self, reason: LostReason) {
        self.hold.ends(&self.key, reason);
        // The state was written before this look at the event, and `end_event` makes the event
        // before its look at the state: one of the two sees what the other has written.
        atomic::fence(Ordering::SeqCst);
        if let Some(event) = self.end_event.get() {
            event.notify_waiters();
        }
    }

    /// Why it has ended; `None` while it lasts, and after its deadline until a call looks at the
    /// clock.
    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        match self.state() {
            LeaseState::Until(_) => None,
            LeaseState::Over(reason) => Some(reason),
        }
    }

    /// Its holder has given the lock away, or has started under a rate.
    pub(crate) fn is_handed_over(&self) -> bool {
        matches!(self.lost_reason(), Some(LostReason::HandedOver | LostReason::Started))
    }

    /// The error for a holder whose lease has ended.
    pub(crate) fn lost(&self) -> LockError {
        let reason = self.lost_reason().unwrap_or(LostReason::ManagerClosed);
        LockError::Lost { key: Arc::clone(&self.key), reason }
    }

    pub(crate) fn deadline(&self) -> Option<Moment> {
        match self.state() {
            LeaseState::Until(deadline) => Some(deadline),
            LeaseState::Over(_) => None,
        }
    }

    fn state(&self) -> LeaseState {
        LeaseState::read(self.state.load(Ordering::Acquire))
    }

    /// False when the lease has ended.
    fn change(&self, new: LeaseState) -> bool {
        let change = |old| matches!(LeaseState::read(old), LeaseState::Until(_)).then_some(new.number());
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }

    fn replace(&self, old: LeaseState, new: LeaseState) -> bool {
        let (old, new) = (old.number(), new.number());
        self.state.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Completes when the lease ends, unless that was before: look at the lease after this call.
    pub(crate) fn end_event(&self) -> OwnedNotified {
        let event = Arc::clone(self.end_event.get_or_init(Arc::default)).notified_owned();
        atomic::fence(Ordering::SeqCst);
        event
    }
}

pin_project! {
    /// Completes with the first lease that has ended. Each poll also looks at the clock: the engine
    /// may be late with the event.
    #[project = LeaseEndProjection]
    pub(crate) enum LeaseEnd {
        One { clock: Clock, #[pin] end: OneLeaseEnd },
        Many { clock: Clock, ends: Vec<Pin<Box<OneLeaseEnd>>> },
    }
}

impl LeaseEnd {
    /// When the first of `leases` ends.
    pub(crate) fn of(clock: &Clock, leases: OneOrMany<Arc<Lease>>) -> Self {
        let clock = clock.clone();
        match leases {
            OneOrMany::One(lease) => Self::One { clock, end: OneLeaseEnd::of(lease) },
            OneOrMany::Many(leases) => {
                let ends = leases.into_iter().map(OneLeaseEnd::of).map(Box::pin).collect();
                Self::Many { clock, ends }
            }
        }
    }

    /// Polls without the clock, for a caller that looks at it before it relies on the lease
    /// again: its task is woken when the engine ends the lease.
    #[inline]
    pub(crate) fn poll_event(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Arc<Lease>> {
        match self.project() {
            LeaseEndProjection::One { end, .. } => end.poll(cx, None),
            LeaseEndProjection::Many { ends, .. } => first_of(ends, cx, None),
        }
    }
}

impl Future for LeaseEnd {
    type Output = Arc<Lease>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Arc<Lease>> {
        match self.project() {
            LeaseEndProjection::One { clock, end } => end.poll(cx, Some(clock.now())),
            LeaseEndProjection::Many { clock, ends } => first_of(ends, cx, Some(clock.now())),
        }
    }
}

fn first_of(
    ends: &mut [Pin<Box<OneLeaseEnd>>],
    cx: &mut Context<'_>,
    now: Option<Moment>,
) -> Poll<Arc<Lease>> {
    let mut polled = ends.iter_mut().map(|end| end.as_mut().poll(cx, now));
    polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
}

pin_project! {
    pub(crate) struct OneLeaseEnd {
        lease: Arc<Lease>,
        // Made by the first poll: a body that is done at once never waits for it.
        #[pin]
        event: Option<OwnedNotified>,
        // Which task the event wakes.
        wakes: Option<Waker>,
    }
}

impl OneLeaseEnd {
    fn of(lease: Arc<Lease>) -> Self {
        Self { lease, event: None, wakes: None }
    }

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>, now: Option<Moment>) -> Poll<Arc<Lease>> {
        // The state is written before the event: a task that the event wakes finds it.
        let is_awaited = self.wakes.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if !is_awaited {
            self.as_mut().await_event(cx);
        }
        let lasts = match now {
            Some(now) => self.lease.lasts(now),
            None => self.lease.lost_reason().is_none(),
        };
        if lasts { Poll::Pending } else { Poll::Ready(Arc::clone(&self.lease)) }
    }

    /// The event wakes this task from now on. What came before is in the state of the lease.
    #[cold]
    fn await_event(self: Pin<&mut Self>, cx: &mut Context<'_>) {
        let mut this = self.project();
        if this.event.is_none() {
            this.event.set(Some(this.lease.end_event()));
        }
        if let Some(event) = this.event.as_pin_mut() {
            let _ = event.poll(cx);
        }
        *this.wakes = Some(cx.waker().clone());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_deadline_stops_short_of_the_ttl_by_the_drift() {
        let sent = Moment::now();
        let deadline = safe_until(sent, 10 * SECOND);
        assert_eq!(deadline.since(sent), Duration::from_millis(9_898));
        assert!(safe_until(sent, MIN_TTL) > sent);
    }

    #[test]
    fn an_ended_lease_cannot_be_revived() {
        let start = Moment::now();
        let lease = Lease::new("k".into(), 1, start.after(SECOND), None);
        assert!(lease.renew(start, start.after(2 * SECOND)));
        assert_eq!(lease.remaining(start), Some(2 * SECOND));
        let mut end = pin!(lease.end_event());
        let mut is_over = || end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_over());
        assert_eq!(lease.remaining(start.after(3 * SECOND)), None);
        assert!(!is_over(), "to ask for the time left changes nothing");
        assert_eq!(lease.check(start.after(3 * SECOND)), None, "seen past its deadline");
        assert!(is_over());
        assert!(!lease.renew(start, start.after(9 * SECOND)), "a late renewal comes too late");
        assert_eq!(lease.remaining(start), None);
    }

    #[test]
    fn a_renewal_that_arrives_after_the_deadline_ends_the_lease() {
        let start = Moment::now();
        let lease = Lease::new("k".into(), 1, start.after(SECOND), None);
        assert!(!lease.renew(start.after(2 * SECOND), start.after(9 * SECOND)));
        assert_eq!(lease.lost_reason(), Some(LostReason::Expired));
    }

    #[test]
    fn the_first_reason_for_its_end_stays() {
        let start = Moment::now();
        let lease = Lease::new("k".into(), 1, start.after(SECOND), None);
        assert_eq!(lease.lost_reason(), None);
        lease.end(LostReason::KeyChanged);
        lease.end(LostReason::Released);
        assert_eq!(lease.remaining(start.after(2 * SECOND)), None);
        assert_eq!(lease.lost_reason(), Some(LostReason::KeyChanged));
        assert!(lease.lost().to_string().contains("deleted or overwritten"), "{}", lease.lost());
    }

    #[test]
    fn a_lease_that_ends_at_its_max_hold_says_so_and_another_one_that_it_expired() {
        let start = Moment::now();
        for (hold_until, renewed, reason) in [
            (None, 3, LostReason::Expired),
            (Some(3), 2, LostReason::Expired),
            (Some(3), 4, LostReason::MaxHold),
        ] {
            let hold_until = hold_until.map(|seconds: u32| start.after(seconds * SECOND));
            let lease = Lease::new("k".into(), 1, start.after(SECOND), hold_until);
            assert!(lease.renew(start, start.after(renewed * SECOND)));
            assert_eq!(lease.deadline(), Some(start.after(renewed.min(3) * SECOND)));
            assert_eq!(lease.check(start.after(3 * SECOND)), None);
            assert_eq!(lease.lost_reason(), Some(reason));
        }
    }

    #[derive(Default)]
    struct Task(AtomicBool);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_end_wakes_the_task_that_polled_last() {
        let start = Moment::now();
        let lease = Arc::new(Lease::new("k".into(), 1, start.after(60 * SECOND), None));
        let mut end = pin!(LeaseEnd::of(&Clock::System, OneOrMany::One(Arc::clone(&lease))));
        let tasks = [(); 2].map(|()| Arc::<Task>::default());
        for task in [&tasks[0], &tasks[1], &tasks[1]] {
            let waker = Arc::clone(task).into();
            assert!(end.as_mut().poll_event(&mut Context::from_waker(&waker)).is_pending());
        }
        lease.end(LostReason::KeyChanged);
        assert_eq!(tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed)), [false, true]);
        assert!(end.as_mut().poll_event(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn a_deadline_that_nobody_has_seen_ends_the_wait_of_who_looks_at_the_clock() {
        let lease = Arc::new(Lease::new("k".into(), 1, Moment::now(), None));
        let mut end = pin!(LeaseEnd::of(&Clock::System, OneOrMany::One(lease)));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(end.as_mut().poll_event(cx).is_pending());
        assert!(end.as_mut().poll(cx).is_ready());
        assert!(end.as_mut().poll_event(cx).is_ready(), "it was seen");
    }

    #[test]
    fn the_end_of_one_lease_takes_no_more_room_than_alone() {
        assert_eq!(size_of::<LeaseEnd>(), size_of::<(Arc<Lease>, Clock, OwnedNotified, Waker)>());
    }
}
