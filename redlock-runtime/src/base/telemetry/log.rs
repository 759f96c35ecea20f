//! The engine's log: through `tracing`, with that feature.
//!
//! It may name keys, never tokens.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "used with the feature `tracing`"))]

use std::time::Duration;

use crate::base::capabilities::Abilities;
use crate::base::error::Holder;
#[cfg(any(feature = "axum", feature = "actix-web", feature = "tonic"))]
use crate::base::error::LockError;
use crate::base::limit::Limit;
use crate::base::outcome::LostReason;
#[cfg(feature = "tracing")]
use crate::base::utc::rfc3339;

/// Logged once for each connection to a server that hands no locks over.
pub(crate) fn cannot_hand_over(reason: &str, server: &str, tracks_changes: bool) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "redlocked",
        error = reason,
        "Redis at {server} cannot hand locks over: there is no order among processes, and {}",
        if tracks_changes { "a release wakes one waiter of each" } else { "waiters ask about every 50 ms" }
    );
}

/// Logged once for each connection to a server whose policy was changed while the manager used it.
pub(crate) fn may_evict(reason: &str, server: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "redlocked", "Redis at {server} {reason}");
}

/// Logged once for each connection that lacks an optional feature.
pub(crate) fn connected(abilities: Abilities) {
    #[cfg(feature = "tracing")]
    {
        if !abilities.tracks_changes {
            tracing::warn!(
                target: "redlocked",
                "this Redis does not report changed keys (no RESP3, or CLIENT TRACKING or CLIENT CACHING is forbidden): a \
                 stolen lock shows at the next renewal"
            );
        }
    }
}

/// Logged once for each outage.
pub(crate) fn unreachable(reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "redlocked", error = reason, "no connection to Redis");
}

pub(crate) fn broke(reason: &str) {
    #[cfg(feature = "metrics")]
    super::metrics::reconnects();
    #[cfg(feature = "tracing")]
    tracing::info!(target: "redlocked", error = reason, "reconnecting to Redis");
}

/// Logged once for a caller that waits without a limit, because that caller gets no error.
pub(crate) fn refused(key: &str, reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "redlocked", key, error = reason, "Redis refuses a lock; the caller waits without a limit");
}

/// The program learns of the panic from its panic hook.
pub(super) fn callback_panicked() {
    #[cfg(feature = "tracing")]
    tracing::error!(target: "redlocked", "the callback of `on_event` panicked");
}

/// The body of a leader has returned an error, which its caller may never see.
pub(super) fn term_failed(key: &str, term: u64, error: &dyn std::fmt::Display) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "redlocked", key, term, %error, "a leader steps down: its body failed");
}

pub(crate) fn lost(key: &str, reason: LostReason) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "redlocked", key, reason = reason.as_str(), "lost a held lock: {reason}");
}

/// A task that is spawned tells of its panic only whoever awaits it.
pub(super) fn leader_panicked(key: &str, term: u64) {
    #[cfg(feature = "tracing")]
    tracing::error!(
        target: "redlocked",
        key,
        term,
        "the task of a leader panicked: this process is no longer a candidate for the key"
    );
}

/// The engine stops renewing the lock of a leader.
pub(crate) fn leader_blocked(key: &str, blocked_for: Duration) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "redlocked",
        key,
        blocked_ms = milliseconds(blocked_for),
        "the body of a leader is blocked: its lock is not renewed until the body runs again"
    );
}

/// Callers of one lock differ in how many they let in: 0 is any number.
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "read with the feature `tracing`"))]
pub(crate) fn limits_differ(key: &str, limit: Limit, other: Limit) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "redlocked",
        key,
        permits = number(limit.number()),
        others_permits = number(other.number()),
        "callers of a lock ask for different numbers of permits: the smallest number among those inside counts"
    );
}

/// The release that would have kept the key for its `min_hold` came too late.
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "read with the feature `tracing`"))]
pub(crate) fn kept_too_short(key: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "redlocked", key, "a key expired before its `min_hold`: its release did not reach Redis in time");
}

/// A web request gets the answer of a failed service, which does not contain the reason.
#[cfg(any(feature = "axum", feature = "actix-web", feature = "tonic"))]
pub(crate) fn request_failed(error: &LockError) {
    #[cfg(feature = "tracing")]
    tracing::error!(target: "redlocked", outcome = error.kind().as_str(), error = %error.with_sources(), "request failed: lock error");
}

/// A web request gets the answer to retry, because Redis or this process is unavailable.
#[cfg(any(feature = "axum", feature = "actix-web", feature = "tonic"))]
pub(crate) fn request_not_served(error: &LockError) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "redlocked", outcome = error.kind().as_str(), error = %error.with_sources(), "request refused: lock unavailable");
}

/// The limit of waits, `None` when none is reported.
pub(crate) fn limit_of_waits(limit: Duration) -> Option<Duration> {
    (cfg!(feature = "tracing") && limit < Duration::MAX).then_some(limit)
}

/// The answer of the server about a lock that a caller waits for.
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "read with the feature `tracing`"))]
pub(crate) enum Found<'a> {
    Held {
        holder: &'a Holder,
        in_front: Option<u32>,
        waiters: u32,
    },
    Free,
    /// Nobody has it, and the server refuses it.
    Refused {
        reason: &'a str,
    },
    Unknown {
        reason: &'a str,
    },
}

/// `span`: that of the wait.
#[cfg(feature = "tracing")]
pub(super) fn waits_long(
    span: Option<tracing::span::Id>,
    key: &str,
    waited: Duration,
    waiters_here: usize,
    found: &Found<'_>,
) {
    let waited_ms = milliseconds(waited);
    let (error, message) = match found {
        Found::Held { holder, in_front, waiters } => {
            tracing::warn!(
                target: "redlocked",
                parent: span,
                key,
                waited_ms,
                holder = &*holder.who(),
                holder_function = holder.function(),
                holder_asked_at = holder.asked().map(rfc3339),
                holder_granted_at = holder.granted().map(rfc3339),
                in_front = in_front.map(number),
                waiters = number(*waiters),
                waiters_here = number(waiters_here),
                "slow lock wait: held by another caller"
            );
            return;
        }
        Found::Free => (None, "slow lock wait: the lock is free now"),
        Found::Refused { reason } => (Some(*reason), "slow lock wait: Redis refuses the lock"),
        Found::Unknown { reason } => (Some(*reason), "slow lock wait: the holder is not known now"),
    };
    let waiters_here = number(waiters_here);
    tracing::warn!(target: "redlocked", parent: span, key, waited_ms, waiters_here, error, "{message}");
}

#[cfg(feature = "tracing")]
pub(super) fn long_wait_ended(
    span: Option<tracing::span::Id>,
    key: &str,
    waited: Duration,
    outcome: &'static str,
) {
    let waited_ms = milliseconds(waited);
    tracing::info!(target: "redlocked", parent: span, key, waited_ms, outcome, "slow lock wait ended");
}

/// A field that is a number also behind `tracing-opentelemetry`, which writes unsigned numbers as
/// text.
#[cfg(feature = "tracing")]
pub(super) fn number<N>(number: N) -> i64
where
    i64: TryFrom<N>,
{
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(feature = "tracing")]
pub(super) fn milliseconds(time: Duration) -> i64 {
    number(time.as_millis())
}
