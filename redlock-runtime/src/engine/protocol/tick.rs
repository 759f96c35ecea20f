//! Locks for one tick: one body for each.

use super::Kind;
use crate::base::clock::Moment;
use crate::base::owner::Owner;
use crate::base::tick::{Tick, TickMissed};

/// The tick that a lock is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TickRequest {
    pub(crate) tick: Tick,
    /// The time when the caller asked: the tick is that of then.
    pub(crate) asked: Moment,
    pub(crate) effect: TickEffect,
}

impl TickRequest {
    /// The kind of a lock for this tick, for which a caller asked then. Its grant ends the tick, unless
    /// a body that fails leaves it open.
    pub(crate) fn of(tick: Tick, asked: Moment) -> Kind {
        let effect = match tick.missed {
            TickMissed::Skip => TickEffect::Record,
            TickMissed::Retry => TickEffect::Look,
        };
        Kind::Tick(Box::new(Self { tick, asked, effect }))
    }

    /// The kind of a request that changes this in the record.
    pub(crate) fn with(&self, effect: TickEffect) -> Kind {
        Kind::Tick(Box::new(Self { effect, ..self.clone() }))
    }
}

/// The change that a request makes in the record of ticks.
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
