//! Locks for one tick: one body for each.

use std::time::Duration;

use crate::base::owner::Owner;
use crate::base::tick::Tick;

/// The tick that a lock is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TickRequest {
    pub(crate) tick: Tick,
    /// So long ago the caller asked: the tick is that of then.
    pub(crate) age: Duration,
    pub(crate) effect: TickEffect,
}

/// What a request changes in the record of ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TickEffect {
    /// Nothing: a release will, if its body ends well.
    Look,
    /// The tick is over: with the grant, or with the release of a lock that is still held.
    Record,
    /// No body has begun, so the tick that this token has recorded is open again.
    Undo,
}

/// The last tick that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LastTick {
    /// In ms since 1970.
    pub(crate) at_ms: u64,
    pub(crate) by: Option<Owner>,
}
