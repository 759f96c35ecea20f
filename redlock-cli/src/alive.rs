//! Whether a holder is alive: it is, if it renews its lease.

use std::fmt;
use std::time::Duration;

use redlocked::inspect::LockInfo;
use redlocked::{Holder, LockManager};
use tokio::time::{Instant, sleep};

use crate::exit::Failure;
use crate::lock_text::{Span, caller, holder};

const PAUSE: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(15);

/// The server sees no difference between these.
const NOT_RENEWED: &str = "it has ended, hangs, or does not renew";

/// So many of the holders without a renewal are named.
const NAMED: usize = 5;

/// What was seen of a holder for a while.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alive {
    /// Its lease became longer.
    Renewed { after: Duration },
    /// Its lease did not, although a holder that renews would have done it by now.
    Silent { watched: Duration },
    /// Its lease did not, but that may come later.
    NotYet { watched: Duration },
    /// Its lock has no end.
    Unlimited,
    /// It has left the lock to a ticket.
    Ticket,
    /// Another caller has the lock, or none.
    Gone { next: Option<String> },
    /// Several hold the lock: what was seen of each.
    Each { holders: Vec<OneOfThem>, watched: Duration },
}

/// One of several that hold a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OneOfThem {
    name: String,
    seen: Seen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Renewed,
    Silent,
    NotYet,
    /// It has left, or it is not shown among the first ones any more.
    Gone,
}

impl OneOfThem {
    pub(crate) fn is_renewed(&self) -> Option<bool> {
        match self.seen {
            Seen::Renewed => Some(true),
            Seen::Silent => Some(false),
            Seen::NotYet | Seen::Gone => None,
        }
    }
}

impl Alive {
    /// `None` where it is not known.
    pub(crate) fn is_renewed(&self) -> Option<bool> {
        match self {
            Self::Renewed { .. } => Some(true),
            Self::Silent { .. } => Some(false),
            Self::NotYet { .. } | Self::Unlimited | Self::Ticket | Self::Gone { .. } => None,
            Self::Each { holders, .. } => {
                let has = |seen| holders.iter().any(|one| one.seen == seen);
                match (has(Seen::Silent), has(Seen::NotYet), has(Seen::Renewed)) {
                    (true, ..) => Some(false),
                    (false, false, true) => Some(true),
                    (false, ..) => None,
                }
            }
        }
    }

    /// What was seen of each of those that hold the lock together.
    pub(crate) fn one_by_one(&self) -> &[OneOfThem] {
        if let Self::Each { holders, .. } = self { holders } else { &[] }
    }
}

impl fmt::Display for Alive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renewed { after } => write!(f, "yes, it renewed its lease after {}", Span(*after)),
            Self::Silent { watched } => {
                write!(f, "no renewal in {}: {NOT_RENEWED}", Span(*watched))
            }
            Self::NotYet { watched } => {
                write!(f, "unknown, no renewal in {}: with this lease it may come later", Span(*watched))
            }
            Self::Unlimited => f.write_str("unknown, a lock without an end is not renewed"),
            Self::Ticket => f.write_str("nobody renews the lock of a ticket: it is free when its lease ends"),
            Self::Gone { next: Some(next) } => write!(f, "unknown, by now {next} has the lock"),
            Self::Gone { next: None } => f.write_str("unknown, the lock is free by now"),
            Self::Each { holders, watched } => write_each(holders, *watched, f),
        }
    }
}

/// `yes, 2 of 3 renewed their leases within 1.2 s, 1 has left`
fn write_each(holders: &[OneOfThem], watched: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let of = |seen| holders.iter().filter(move |one| one.seen == seen);
    let count = |seen| of(seen).count();
    let (all, watched) = (holders.len(), Span(watched));
    let left = |f: &mut fmt::Formatter<'_>| match count(Seen::Gone) {
        0 => Ok(()),
        1 => f.write_str(", 1 has left"),
        gone => write!(f, ", {gone} have left"),
    };
    match (count(Seen::Silent), count(Seen::NotYet), count(Seen::Renewed)) {
        (0, 0, 0) => f.write_str("unknown, all that held it have left"),
        (0, 0, renewed) => {
            write!(f, "yes, {renewed} of {all} renewed the lease within {watched}")?;
            left(f)
        }
        (0, not_yet, _) => {
            write!(f, "unknown, no renewal by {not_yet} of {all} in {watched}: it may come later")?;
            left(f)
        }
        (silent, ..) => {
            write!(
                f,
                "no renewal by {silent} of {all} in {watched}: it has ended, hangs, or does not renew"
            )?;
            left(f)?;
            let names: Vec<_> = of(Seen::Silent).take(NAMED).map(|one| one.name.as_str()).collect();
            let more = if silent > NAMED { ", …" } else { "" };
            write!(f, ". Without a renewal: {}{more}", names.join(", "))
        }
    }
}

/// For how long [`watch`] may take. `None` where it takes no time.
pub(crate) fn longest_watch(seen: &LockInfo) -> Option<Duration> {
    if seen.holder().is_ticket() {
        return None;
    }
    let left = seen.holders().iter().filter_map(Holder::expires_in).max()?;
    Some((left / 2).min(LONGEST))
}

/// Watches the holder of `seen` until it renews, or for as long as a holder that renews would take.
///
/// A holder renews every third of its ttl, when two thirds are left: so after a third of what is
/// left now, at the latest. It has half, for a renewal that fails once.
pub(crate) async fn watch(locks: &LockManager, seen: &LockInfo) -> Result<Alive, Failure> {
    if seen.holder().inside().is_some() {
        return watch_each(locks, seen).await;
    }
    let Some(mut left) = seen.holder().expires_in() else {
        return Ok(Alive::Unlimited);
    };
    if seen.holder().is_ticket() {
        return Ok(Alive::Ticket);
    }
    let (start, due) = (Instant::now(), left / 2);
    loop {
        sleep(PAUSE.min(due)).await;
        let lock = locks.inspect(seen.key()).await?;
        let Some(lock) = lock.as_ref().filter(|lock| lock.has_same_holder(seen)) else {
            return Ok(Alive::Gone { next: lock.as_ref().map(holder) });
        };
        let watched = start.elapsed();
        match lock.holder().expires_in() {
            Some(now) if now > left => return Ok(Alive::Renewed { after: watched }),
            Some(now) => left = now,
            None => return Ok(Alive::Unlimited),
        }
        if watched >= due {
            return Ok(Alive::Silent { watched });
        }
        if watched >= LONGEST {
            return Ok(Alive::NotYet { watched });
        }
    }
}

/// Watches each of those that hold a lock together: others come and go meanwhile, so the lease of
/// the lock says nothing of one of them.
async fn watch_each(locks: &LockManager, seen: &LockInfo) -> Result<Alive, Failure> {
    let start = Instant::now();
    let left_of = |holder: &Holder| holder.expires_in().unwrap_or_default();
    let mut each: Vec<_> = seen
        .holders()
        .iter()
        .map(|holder| (holder, left_of(holder), left_of(holder) / 2, Seen::NotYet))
        .collect();
    loop {
        let is_open = |(.., seen): &&(_, _, Duration, Seen)| *seen == Seen::NotYet;
        let Some(due) = each.iter().filter(is_open).map(|(.., due, _)| *due).min() else { break };
        if start.elapsed() >= LONGEST {
            break;
        }
        sleep(PAUSE.min(due)).await;
        let found = locks.inspect(seen.key()).await?;
        let lock = found.as_ref().filter(|lock| lock.has_same_holder(seen));
        let watched = start.elapsed();
        for (holder, left, due, seen) in each.iter_mut().filter(|(.., seen)| *seen == Seen::NotYet) {
            let now = lock.and_then(|lock| lock.holders().iter().find(|now| now.is_same_call(holder)));
            match now.map(left_of) {
                None => *seen = Seen::Gone,
                Some(now) if now > *left => *seen = Seen::Renewed,
                Some(_) if watched >= *due => *seen = Seen::Silent,
                Some(now) => *left = now,
            }
        }
    }
    let name = |holder: &Holder| caller(holder.name(), holder.function());
    let holders = each.into_iter().map(|(holder, .., seen)| OneOfThem { name: name(holder), seen }).collect();
    Ok(Alive::Each { holders, watched: start.elapsed() })
}
