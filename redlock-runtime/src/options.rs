//! The options of a request, their allowed ranges, and the deadline that follows from them.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::key;
use crate::base::lease::{MAX_TTL_MS, MIN_TTL, ttl_is_in_range};
use crate::base::limit::Limit;
use crate::base::owner::Origin;
use crate::base::telemetry;
use crate::base::tick::Ticks;
use crate::engine::command::WaitDeadline;
use crate::engine::protocol::{Kind, Once, OnceRequest, Run, TickRequest};
use crate::manager::LockManager;
use crate::reentrancy::{self, BE_REENTRANT, HeldLock};
use crate::ticket::Ticket;

/// The longest wait of a caller for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The default of the manager.
    Default,
    AtMost(Duration),
    Forever,
}

/// The options that apply to each key of a request.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// `None`: the default of the manager.
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Wait,
    pub(crate) renew: bool,
    /// `None`: the default of the manager.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) at_end: AtEnd,
    pub(crate) reentrant: bool,
    /// The number of callers that may be inside at once.
    pub(crate) sharing: Sharing,
    pub(crate) rare: Option<Box<RareOptions>>,
    /// The body, or the caller, can see the fencing token. Several keys draw theirs in any case.
    pub(crate) fenced: bool,
    pub(crate) origin: Origin,
    /// Set by the first poll.
    pub(crate) call: telemetry::WaitReporter,
}

/// The options that few requests have. They are boxed, because each future under a lock has room
/// for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RareOptions {
    /// Redeemed in place of a try.
    pub(crate) ticket: Option<Ticket>,
    /// One body runs for each.
    pub(crate) ticks: Option<Ticks>,
    /// The body runs once for all calls.
    pub(crate) once: Option<Arc<Once>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: None,
            wait: Wait::Default,
            renew: true,
            max_hold: None,
            min_hold: None,
            at_end: AtEnd::default(),
            reentrant: false,
            sharing: Sharing::Exclusive,
            rare: None,
            fenced: true,
            origin: Origin::default(),
            call: telemetry::WaitReporter::default(),
        }
    }
}

/// The options for the end of a body, and of its lease: `on_lost`, and whether its caller waits for
/// the release. One byte, because each future under a lock has room for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AtEnd(u8);

/// Its bits: one of `FINISHES` and `FAILS` or none, and one of the others or none.
const FINISHES: u8 = 1;
const FAILS: u8 = 2;
const IS_AWAITED: u8 = 4;
const IN_BACKGROUND: u8 = 8;

impl AtEnd {
    pub(crate) fn on_lost(self) -> OnLost {
        match self.0 & (FINISHES | FAILS) {
            FINISHES => OnLost::Finish,
            FAILS => OnLost::Error,
            _ => OnLost::Cancel,
        }
    }

    /// `None`: the default of the manager.
    pub(crate) fn in_background(self) -> Option<bool> {
        match self.0 & (IS_AWAITED | IN_BACKGROUND) {
            IS_AWAITED => Some(false),
            IN_BACKGROUND => Some(true),
            _ => None,
        }
    }

    pub(crate) fn with_on_lost(self, on_lost: OnLost) -> Self {
        let bit = match on_lost {
            OnLost::Cancel => 0,
            OnLost::Finish => FINISHES,
            OnLost::Error => FAILS,
        };
        Self(self.0 & !(FINISHES | FAILS) | bit)
    }

    pub(crate) fn with_release(self, in_background: bool) -> Self {
        let bit = if in_background { IN_BACKGROUND } else { IS_AWAITED };
        Self(self.0 & !(IS_AWAITED | IN_BACKGROUND) | bit)
    }
}

/// The callers that may hold a lock together, as a request says it. Small, because each future
/// under a lock has room for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    Exclusive,
    Shared,
    /// So many, of which it takes so many. Zero for a number out of range.
    Permits(u16, u16),
    /// It takes so many permits, of no number.
    Take(u16),
    /// Both, which is none of them.
    SharedWithPermits,
    /// One of several keys, which is in the list twice with different numbers.
    DifferentPermits,
    /// So many starts in a time, which is the `min_hold`. Nobody holds anything. Zero for a number out
    /// of range.
    Rate(u16),
    /// That, and another option that says how many or how long.
    RateWithOther,
}

/// The most permits of one request.
pub(crate) const MOST_PERMITS: u16 = 10_000;

impl Sharing {
    pub(crate) fn permits(self, permits: u32) -> Self {
        let permits = in_range(permits);
        match self {
            Self::Exclusive => Self::Permits(permits, 1),
            Self::Permits(_, take) | Self::Take(take) => Self::Permits(permits, take),
            Self::Shared | Self::SharedWithPermits => Self::SharedWithPermits,
            Self::DifferentPermits => self,
            Self::Rate(_) | Self::RateWithOther => Self::RateWithOther,
        }
    }

    pub(crate) fn take(self, take: u32) -> Self {
        let take = in_range(take);
        match self {
            Self::Exclusive | Self::Take(_) => Self::Take(take),
            Self::Permits(permits, _) => Self::Permits(permits, take),
            Self::Shared | Self::SharedWithPermits => Self::SharedWithPermits,
            Self::DifferentPermits => self,
            Self::Rate(_) | Self::RateWithOther => Self::RateWithOther,
        }
    }

    pub(crate) fn shared(self) -> Self {
        match self {
            Self::Exclusive | Self::Shared => Self::Shared,
            Self::Permits(..) | Self::Take(_) | Self::SharedWithPermits => Self::SharedWithPermits,
            Self::DifferentPermits => self,
            Self::Rate(_) | Self::RateWithOther => Self::RateWithOther,
        }
    }

    /// The kind of a key that is in a list twice: the stricter one, in which a caller may do all that it
    /// may in the other one.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (mistake, _) | (_, mistake) if mistake.mistake().is_some() => mistake,
            (Self::Exclusive, _) | (_, Self::Exclusive) => Self::Exclusive,
            (Self::Shared, permits) | (permits, Self::Shared) => permits,
            _ => Self::DifferentPermits,
        }
    }

    /// `other`: the request has a `min_hold` of its own.
    pub(crate) fn rate(self, starts: u32, other: bool) -> Self {
        match self {
            Self::Exclusive if !other => Self::Rate(in_range(starts)),
            Self::Rate(_) => Self::Rate(in_range(starts)),
            _ => Self::RateWithOther,
        }
    }

    /// The request has a `min_hold`.
    pub(crate) fn min_hold(self) -> Self {
        if self.is_rate() { Self::RateWithOther } else { self }
    }

    /// It limits starts, and is no lock.
    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Self::Rate(_) | Self::RateWithOther)
    }

    fn mistake(self) -> Option<Arc<str>> {
        Some(match self {
            Self::Permits(0, _) => {
                "the number of `permits` is out of range; it must be at least 1 and at most 10,000, or `shared` for any \
                 number"
                    .into()
            }
            Self::Permits(_, 0) => {
                "the number of permits to `take` is out of range; it must be at least 1 and at most the number of `permits`".into()
            }
            Self::Permits(permits, take) if take > permits => {
                format!("it would `take` {take} of {permits} permits, and never get them: take at most {permits}").into()
            }
            Self::Rate(0) => {
                "the number of starts of a `rate` is out of range; it must be at least 1 and at most 10,000".into()
            }
            Self::RateWithOther => {
                "a `rate` limits starts, and nothing is held: leave out `shared`, `permits`, `take` and `min_hold`".into()
            }
            Self::Exclusive | Self::Shared | Self::Permits(..) | Self::Rate(_) => return None,
            Self::DifferentPermits => {
                "the key is in the list twice, with different `permits` or `take`: name it once".into()
            }
            Self::Take(_) => "`take` says how many of the `permits` a caller takes: give `permits`, too".into(),
            Self::SharedWithPermits => {
                "`shared` lets in any number of callers, and `permits` a limited one: leave out one of them, and `take` with \
                 `permits`"
                    .into()
            }
        })
    }

    /// The limit, if it is one.
    pub(crate) fn checked(self, key: &Arc<str>) -> Result<Limit, LockError> {
        let mistake = self.mistake().map(|reason| LockError::InvalidRequest { key: Arc::clone(key), reason });
        mistake.map_or(Ok(self.limit()), Err)
    }

    /// One permit is an exclusive lock.
    pub(crate) fn limit(self) -> Limit {
        match self {
            Self::Exclusive
            | Self::SharedWithPermits
            | Self::DifferentPermits
            | Self::RateWithOther
            | Self::Permits(0, _)
            | Self::Rate(0)
            | Self::Take(_) => Limit::ONE,
            Self::Shared => Limit::NONE,
            Self::Permits(permits, take) => Limit::of(permits.into()).taking(take.into()),
            Self::Rate(starts) => Limit::of(starts.into()),
        }
    }
}

/// Zero for a number that no request may give.
fn in_range(permits: u32) -> u16 {
    u16::try_from(permits).ok().filter(|permits| *permits <= MOST_PERMITS).unwrap_or(0)
}

impl Options {
    /// The key, if key and options are within their ranges.
    pub(crate) fn check(&self, manager: &LockManager, key: String) -> Result<Arc<str>, LockError> {
        key::validate(manager.prefix(), &key)?;
        let key: Arc<str> = key.into();
        check_ttl(&key, self.ttl(manager))?;
        self.check_rate(manager, &key)?;
        self.check_hold(manager, &key)?;
        self.check_release(&key)?;
        self.check_sharing(manager, &key)?;
        self.check_ticks(manager, &key)?;
        self.check_once(manager, &key)?;
        self.ticket().iter().try_for_each(|ticket| ticket.check(manager.prefix()))?;
        Ok(key)
    }

    pub(crate) fn ttl(&self, manager: &LockManager) -> Duration {
        if self.sharing.is_rate() {
            return manager.io_timeout().max(LATEST_START);
        }
        self.ttl.unwrap_or(manager.defaults().ttl)
    }

    /// `None`: without a limit.
    pub(crate) fn max_hold(&self, manager: &LockManager) -> Option<Duration> {
        if self.sharing.is_rate() {
            return None;
        }
        self.max_hold.or(manager.defaults().max_hold)
    }

    /// Returns an error if an option cannot be combined with a limit of starts.
    fn check_rate(&self, manager: &LockManager, key: &Arc<str>) -> Result<(), LockError> {
        if !self.sharing.is_rate() {
            return Ok(());
        }
        self.sharing.checked(key)?;
        let refused = if !ttl_is_in_range(self.min_hold.unwrap_or_default()) {
            Some("the time of a `rate` must be at least 10 ms and below 2^53 ms")
        } else if self.ttl.is_some() || self.max_hold.is_some() || !self.renew {
            Some(RATE_HOLDS_NOTHING)
        } else if self.at_end != AtEnd::default() {
            Some(
                "under a `rate` nothing is lost or released: leave out `on_lost` and `release_in_background`",
            )
        } else if self.reentrant {
            Some("each call under a `rate` is a start of its own, and joins no other: leave out `reentrant`")
        } else if self.ticket().is_some() {
            Some("a ticket gives a lock away, and under a `rate` nobody holds one: redeem it without `rate`")
        } else if self.ticks().is_some() {
            Some("one body runs for a tick, and a `rate` lets several start: leave out one of them")
        } else if self.once().is_some() {
            Some("a body that runs once starts once for its key: leave out `rate`, or `once`")
        } else {
            manager.engine().no_rates()
        };
        refused.map_or(Ok(()), |reason| Err(LockError::invalid(key, reason)))
    }

    fn check_hold(&self, manager: &LockManager, key: &Arc<str>) -> Result<(), LockError> {
        let (ttl, max) = (self.ttl(manager), self.max_hold(manager));
        let whose = |own: Option<Duration>, name: &str| {
            if own.is_some() { name.to_owned() } else { format!("manager's `default_{name}`") }
        };
        let min = self.min_hold.unwrap_or_default();
        let reason = if max.is_some_and(|max| max < MIN_TTL) {
            "a `max_hold` must be at least 10 ms".to_owned()
        } else if min.as_millis() > u128::from(MAX_TTL_MS) {
            "a `min_hold` must be below 2^53 ms".to_owned()
        } else if let Some(max) = max.filter(|max| min > *max) {
            let whose = whose(self.max_hold, "max_hold");
            format!(
                "a `min_hold` of {min:?} is longer than the {whose} of {max:?}: shorten it, or give a longer `max_hold`"
            )
        } else if !self.renew && min > ttl {
            let whose = whose(self.ttl, "ttl");
            format!(
                "a `min_hold` of {min:?} is longer than the {whose} of {ttl:?}, and without renewal the key may be gone by then: \
                 give a `ttl` as long as `min_hold`"
            )
        } else {
            return Ok(());
        };
        Err(LockError::InvalidRequest { key: Arc::clone(key), reason: reason.into() })
    }

    fn check_release(&self, key: &Arc<str>) -> Result<(), LockError> {
        if self.at_end.in_background() == Some(true) && self.at_end.on_lost() == OnLost::Error {
            return Err(LockError::invalid(key, NOT_IN_BACKGROUND));
        }
        Ok(())
    }

    fn check_sharing(&self, manager: &LockManager, key: &Arc<str>) -> Result<(), LockError> {
        let refused = if !self.sharing.checked(key)?.is_counted() {
            None
        } else if self.ticket().is_some() {
            Some(NO_TICKET)
        } else {
            manager.engine().only_exclusive()
        };
        refused.map_or(Ok(()), |reason| Err(LockError::invalid(key, reason)))
    }

    /// One body runs for a tick, so nobody is inside beside it, and no lock comes from elsewhere.
    fn check_ticks(&self, manager: &LockManager, key: &Arc<str>) -> Result<(), LockError> {
        let Some(ticks) = self.ticks() else { return Ok(()) };
        ticks.checked(key)?;
        let refused = if self.sharing.limit().is_counted() {
            Some(TICK_ALONE)
        } else if self.min_hold.is_some_and(|min_hold| !min_hold.is_zero()) {
            Some(TICK_IS_NO_MIN_HOLD)
        } else if self.reentrant {
            Some(TICK_IS_NOT_JOINED)
        } else if self.ticket().is_some() {
            Some(TICK_WITHOUT_TICKET)
        } else {
            manager.engine().no_ticks()
        };
        refused.map_or(Ok(()), |reason| Err(LockError::invalid(key, reason)))
    }

    /// Returns an error if an option cannot be combined with a body that runs once.
    fn check_once(&self, manager: &LockManager, key: &Arc<str>) -> Result<(), LockError> {
        let Some(once) = self.once() else { return Ok(()) };
        let refused = if !ttl_is_in_range(once.lasts) {
            Some(ONCE_LASTS)
        } else if self.sharing.limit().is_counted() {
            Some("a body that runs once has its lock alone: leave out `shared` and `permits`")
        } else if self.min_hold.is_some() {
            Some("a body that runs once does not run again while its record lasts: leave out `min_hold`")
        } else if self.reentrant {
            Some("a body that runs once cannot join the lock of its caller: leave out `reentrant`")
        } else if self.ticks().is_some() {
            Some(
                "`once` keeps one result for a key, and `tick` runs the body again at each tick: leave out one of them",
            )
        } else {
            manager.engine().no_records()
        };
        refused.map_or(Ok(()), |reason| Err(LockError::invalid(key, reason)))
    }

    /// The tick, of a request that was checked.
    /// That no more than one of these was chosen was checked before.
    pub(crate) fn kind(&self, key: &Arc<str>, asked: Moment) -> Result<Kind, LockError> {
        if let Some(ticks) = self.ticks() {
            return Ok(TickRequest::of(ticks.checked(key)?, asked));
        }
        if let Some(once) = self.once() {
            return Ok(OnceRequest::of(Arc::clone(once), Run::Undone));
        }
        Ok(match self.ticket() {
            Some(ticket) => Kind::Ticket(Box::new(ticket.token().clone())),
            None => Kind::of_limit(self.sharing.limit()),
        })
    }

    fn ticks(&self) -> Option<&Ticks> {
        self.rare.as_ref()?.ticks.as_ref()
    }

    pub(crate) fn ticket(&self) -> Option<&Ticket> {
        self.rare.as_ref()?.ticket.as_ref()
    }

    /// The body runs once.
    pub(crate) fn once(&self) -> Option<&Arc<Once>> {
        self.rare.as_ref()?.once.as_ref()
    }

    pub(crate) fn rare(&mut self) -> &mut RareOptions {
        self.rare.get_or_insert_default()
    }

    /// Checks the options of a request for several keys.
    pub(crate) fn check_of_several(&self) -> Result<(), LockError> {
        if self.ticks().is_some() {
            return Err(LockError::InvalidRequest { key: "[]".into(), reason: TICK_OF_SEVERAL.into() });
        }
        if self.sharing.is_rate() {
            return Err(LockError::InvalidRequest { key: "[]".into(), reason: RATE_OF_SEVERAL.into() });
        }
        // One permit is an exclusive lock, here too.
        if self.sharing.limit().is_counted() || self.sharing.mistake().is_some() {
            return Err(LockError::InvalidRequest { key: "[]".into(), reason: NOT_SEVERAL.into() });
        }
        if self.once().is_some() {
            return Err(LockError::InvalidRequest { key: "[]".into(), reason: ONE_KEY.into() });
        }
        Ok(())
    }

    /// The lock that the caller already holds, for a `reentrant` request to join.
    pub(crate) fn joins(&self, manager: &LockManager, key: &Arc<str>) -> Result<Option<HeldLock>, LockError> {
        if self.ticket().is_some() {
            return Ok(None);
        }
        let outer = reentrancy::held_here(manager.engine(), key);
        let Some(hold) = &outer else { return Ok(None) };
        let advice = reentrancy::advice(hold.lease.limit(), self.sharing.limit());
        match advice {
            None if self.reentrant => Ok(outer),
            advice => {
                Err(LockError::Deadlock { key: Arc::clone(key), advice: advice.unwrap_or(BE_REENTRANT) })
            }
        }
    }

    pub(crate) fn deadline(&self, manager: &LockManager) -> WaitDeadline {
        let started = manager.engine().now();
        let wait = match self.wait {
            Wait::Default => manager.defaults().wait,
            Wait::AtMost(wait) => Some(wait),
            Wait::Forever => None,
        };
        let (one_try, wait) = match wait {
            // A ticket is good once: a redemption whose reply was lost is asked again.
            wait if self.ticket().is_some() => (false, wait.map(|wait| wait.max(manager.io_timeout()))),
            wait => (wait == Some(Duration::ZERO), wait),
        };
        let limit = if one_try { Some(manager.io_timeout()) } else { wait };
        WaitDeadline { started, one_try, gives_up_at: limit.map(|limit| started.after(limit)) }
    }
}

/// A start whose answer is later than this, or than an answer may be, is none: the server keeps each
/// start for so much longer, until the process has said when it was.
const LATEST_START: Duration = Duration::from_secs(1);

const RATE_HOLDS_NOTHING: &str =
    "a `rate` limits starts, and nothing is held: leave out `ttl`, `max_hold` and `renew`";

const RATE_OF_SEVERAL: &str =
    "a `rate` is that of one key: take a start of one key, and lock the others inside it";

const TICK_ALONE: &str = "one body runs for a tick: leave out `shared` or `permits`, or the tick";

const TICK_IS_NO_MIN_HOLD: &str = "a tick is taken until the next one, without a `min_hold`: leave that out";

const TICK_IS_NOT_JOINED: &str = "a `reentrant` call may join its caller's lock, which is for no tick, or for another one: leave out \
                                  `reentrant`";

const TICK_WITHOUT_TICKET: &str =
    "a ticket gives a lock away, and not the tick that its holder has taken: redeem it without a tick";

const TICK_OF_SEVERAL: &str = "a tick is that of one key: leave out the tick, or give the job one `key`";

/// A ticket stands for the whole lock.
const NO_TICKET: &str =
    "a ticket gives its lock to one caller alone: redeem it without `shared` and `permits`";

/// The release may find the loss.
const NOT_IN_BACKGROUND: &str = "`OnLost::Error` tells the caller of a loss that only the release finds: leave out \
                                 `release_in_background`, or `on_lost`";

const NOT_SEVERAL: &str = "each of several keys says who may hold it: give `LockKey::shared(key)` or \
                           `LockKey::permits(key, n)` to `lock_all`, in place of `shared`, `permits` or `take`";

const ONE_KEY: &str = "a body that runs once has one key, which its record is for: lock the others inside it";

const ONCE_LASTS: &str =
    "the time for which the result is kept (`once`) must be at least 10 ms and below 2^53 ms";

pub(crate) fn check_ttl(key: &Arc<str>, ttl: Duration) -> Result<(), LockError> {
    if ttl_is_in_range(ttl) {
        return Ok(());
    }
    let reason = format!("a ttl of {ttl:?} is out of range; it must be at least 10 ms and below 2^53 ms");
    Err(LockError::InvalidRequest { key: Arc::clone(key), reason: reason.into() })
}

/// The choice for a body whose lock is lost while it runs.
///
/// A sync body cannot be stopped: with [`Cancel`](Self::Cancel), the default, and with
/// [`Finish`](Self::Finish) it runs to its end, and its caller gets its result as if nothing had
/// happened.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::{LockManager, OnLost};
///
/// let locks = LockManager::connect("memory://on-lost-type-example").await?;
/// let request = locks.lock("audit").ttl(Duration::from_millis(20)).renew(false).on_lost(OnLost::Finish);
/// let held = request.run_value(async |guard| {
///     guard.lost().await;
///     guard.is_held()
/// });
/// assert!(!held.await?, "it ran to its end");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnLost {
    /// An async body is dropped before the server may give the lock to another caller, and its
    /// caller gets [`LockError::Lost`].
    #[default]
    Cancel,
    /// The body runs to its end. It should check [`LockGuard::is_held`](crate::LockGuard::is_held)
    /// before each step that needs the lock.
    Finish,
    /// The body, async or sync, runs to its end. Then its caller gets [`LockError::Lost`] instead
    /// of its result, whatever that is, if the lock was not held all the time, also where only the
    /// release has found that out.
    Error,
}
