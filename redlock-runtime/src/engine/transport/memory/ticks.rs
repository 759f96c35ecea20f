//! The ticks of the locks in memory: what `tick.lua` and `end_tick.lua` do on a server.
//!
//! The time of the node is the time of the machine when it is first asked for, and goes on with the
//! clock of the manager from then on: so it never jumps, and a paused clock pauses it. A test may
//! set it.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::protocol::{LastTick, Request, TickEffect, TickRequest, Verdict};
use crate::ground::clock::Moment;
use crate::ground::host::{HashMap, wall_clock};
use crate::ground::tick::{AHEAD, nearest};
use crate::ground::token::{self, Token};

/// With more records than this, those that are over are removed.
const PURGE_ABOVE: usize = 64;

#[derive(Default)]
pub(super) struct Ticks {
    /// What the time was, in ms since 1970, and when.
    known: Option<(u64, Moment)>,
    records: HashMap<Arc<str>, Record>,
    purge_above: usize,
}

struct Record {
    at_ms: u64,
    /// `None`: this tick is still to be run, and those before it are over.
    by: Option<Token>,
    /// In ms since 1970.
    ends: u64,
}

impl Ticks {
    /// In ms since 1970.
    fn time(&mut self, now: Moment) -> u64 {
        let (known, at) = *self.known.get_or_insert_with(|| (in_ms(wall_clock()), now));
        known.saturating_add(in_ms(now.since(at)))
    }

    #[cfg(feature = "testing")]
    pub(super) fn set_time(&mut self, since_1970: Duration, now: Moment) {
        self.known = Some((in_ms(since_1970), now));
    }

    /// As after `FLUSHALL`.
    #[cfg(feature = "testing")]
    pub(super) fn forget(&mut self) {
        self.records.clear();
    }

    /// The record, unless it is over.
    fn record(&mut self, name: &Arc<str>, time: u64) -> Option<&mut Record> {
        self.records.get_mut(name).filter(|record| record.ends > time)
    }

    pub(super) fn last(&mut self, name: &Arc<str>, now: Moment) -> Option<LastTick> {
        let time = self.time(now);
        let record = self.record(name, time)?;
        let by = record.by.as_ref()?;
        Some(LastTick { at_ms: record.at_ms, by: token::owner_of(by.value()) })
    }

    /// `acquire` takes the lock, if the tick is still to be run.
    pub(super) fn acquire(
        &mut self,
        request: &Request,
        now: Moment,
        acquire: impl FnOnce() -> Verdict,
    ) -> Verdict {
        let Some(TickRequest { tick, age, effect }) = request.tick() else { return acquire() };
        let time = self.time(now);
        let at_ms = tick.at_ms.unwrap_or_else(|| nearest(time.saturating_sub(in_ms(*age)), tick.every_ms));
        let ends = at_ms.saturating_add(in_ms(tick.keeps()));
        let verdict = if ends <= time {
            Verdict::TickUnknown { is_ahead: false }
        } else if tick.every_ms == 0 && at_ms > time.saturating_add(in_ms(AHEAD)) {
            Verdict::TickUnknown { is_ahead: true }
        } else if let Some(taken) = self.taken(request, at_ms, time) {
            taken
        } else {
            let verdict = acquire();
            if *effect == TickEffect::Record && verdict.fence().is_some() {
                self.write(request, Record { at_ms, by: Some(request.token.clone()), ends }, time);
            }
            verdict
        };
        Verdict::OfTick { at_ms, verdict: Box::new(verdict) }
    }

    fn taken(&mut self, request: &Request, at_ms: u64, time: u64) -> Option<Verdict> {
        let record = self.record(&request.name, time)?;
        let is_open = record.by.as_ref().is_none_or(|by| *by == request.token);
        let is_taken = record.at_ms > at_ms || record.at_ms == at_ms && !is_open;
        let by = record.by.as_ref().and_then(|by| token::owner_of(by.value()));
        is_taken.then_some(Verdict::TickTaken { last_ms: record.at_ms, by })
    }

    /// A release says what becomes of the tick. `is_held`: the token has the lock until now.
    pub(super) fn end(&mut self, request: &Request, is_held: bool, now: Moment) {
        let Some(TickRequest { tick, effect, .. }) = request.tick() else { return };
        let time = self.time(now);
        match (effect, tick.at_ms) {
            (TickEffect::Record, Some(at_ms)) if is_held => {
                let ends = at_ms.saturating_add(in_ms(tick.keeps()));
                self.write(request, Record { at_ms, by: Some(request.token.clone()), ends }, time);
            }
            (TickEffect::Undo, _) => {
                let of_this = self.record(&request.name, time);
                if let Some(record) = of_this.filter(|record| record.by.as_ref() == Some(&request.token)) {
                    record.by = None;
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, request: &Request, record: Record, time: u64) {
        self.records.insert(Arc::clone(&request.name), record);
        if self.records.len() > self.purge_above {
            self.records.retain(|_, record| record.ends > time);
            self.purge_above = (2 * self.records.len()).max(PURGE_ABOVE);
        }
    }
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
