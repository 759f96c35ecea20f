//! Pauses of random length, so that many processes do not ask in step.

use std::time::Duration;

/// Between nothing and `window`.
pub(crate) fn full_jitter(window: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    window.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Between half and one and a half times `interval`, so that many processes do not ask in step.
pub(crate) fn jittered(interval: Duration) -> Duration {
    interval / 2 + full_jitter(interval)
}
