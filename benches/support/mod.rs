//! What the benches share: the contenders, a proxy that adds a round trip, and figures that survive a noisy machine.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    missing_docs,
    unreachable_pub,
    reason = "each bench uses a part of this, and a bench may panic"
)]

pub mod bare;
pub mod bare_quorum;
pub mod delay;
pub mod figures;
pub mod wake;
