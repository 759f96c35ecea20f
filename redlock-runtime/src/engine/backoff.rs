//! Pauses of random length, so that many processes do not ask in step.

use std::time::Duration;

use crate::ground::host;

/// Pauses that double with each failure, up to the longest.
pub(crate) struct Backoff {
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    /// The pause after so many failures and one more.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        jittered(self.window(failures))
    }

    /// The same without jitter.
    pub(crate) fn window(&self, failures: u32) -> Duration {
        self.shortest.saturating_mul(2_u32.saturating_pow(failures)).min(self.longest)
    }
}

/// Between zero and `window`.
pub(crate) fn full_jitter(window: Duration) -> Duration {
    let mut random = [0; 4];
    let random = host::random(&mut random).map_or(u32::MAX / 2, |()| u32::from_ne_bytes(random));
    window.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Between half and one and a half times `interval`.
pub(crate) fn jittered(interval: Duration) -> Duration {
    interval / 2 + full_jitter(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { shortest: Duration::from_millis(20), longest: Duration::from_millis(500) };
        let windows = [0, 1, 4, 5, u32::MAX].map(|failures| backoff.window(failures).as_millis());
        assert_eq!(windows, [20, 40, 320, 500, 500]);
    }
}
