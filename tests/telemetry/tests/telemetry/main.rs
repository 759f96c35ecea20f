//! Metrics, spans and the log, as a service sees them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_cmp,
    reason = "a test may panic, and counts are exact"
)]

mod alerts;
mod long_waits;
mod metrics;
mod min_hold;
mod seen;
mod sharing;
mod spans;
