//! The engine's log: through `tracing`, with that feature.
//!
//! It may name keys, never tokens.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "used with the feature `tracing`"))]

use crate::capabilities::Abilities;
use crate::lost_reason::LostReason;

/// Logged once for each connection that lacks an optional feature.
pub(crate) fn connected(abilities: Abilities) {
    #[cfg(feature = "tracing")]
    {
        if !abilities.hands_over {
            tracing::warn!(
                target: "redlocked",
                "this Redis cannot hand locks over (no RESP3, or SUBSCRIBE, PUBLISH, PUBSUB or a command of sorted \
                 sets is forbidden): there is no order among processes, and {}",
                if abilities.tracks_changes {
                    "a release wakes one waiter of each"
                } else {
                    "waiters ask about every 50 ms"
                }
            );
        }
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
    tracing::warn!(target: "redlocked", reason, "no connection to Redis");
}

pub(crate) fn broke(reason: &str) {
    super::metrics::reconnects();
    #[cfg(feature = "tracing")]
    tracing::info!(target: "redlocked", reason, "connecting to Redis again");
}

/// Logged once for a caller that waits without a limit, because that caller gets no error.
pub(crate) fn refused(key: &str, reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "redlocked", key, reason, "Redis refuses a lock that is waited for without a limit");
}

pub(crate) fn lost(key: &str, reason: LostReason) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "redlocked", key, %reason, "lost a lock that was held");
}
