//! One lock: who holds it, who waits for it, and what is being released.

pub(super) mod asking;
pub(super) mod hand_over;
pub(super) mod held;
pub(super) mod holding;
pub(super) mod passed_on;
pub(super) mod queue;
pub(super) mod releasing;
pub(super) mod successors;
pub(super) mod waiting;
