//! The ticks of the locks in memory: what `tick.lua` and `end_tick.lua` do on a server.
//!
//! The time of the node is the time of the machine when it is first asked for, and goes on with the
//! clock of the manager from then on: so it never jumps, and a paused clock pauses it. A test may
//! set it.

use std::sync::Arc;
use std::time::Duration;

use super::MemoryLock;
use crate::base::clock::Moment;
use crate::base::host::{HashMap, wall_clock};
use crate::base::tick::{AHEAD, SETTLES, early, named};
use crate::base::token::{self, Token};
use crate::engine::protocol::{LastTick, Mode, Request, TickEffect, TickRequest, Verdict};

/// With more records than this, those that are over are removed.
const PURGE_ABOVE: usize = 64;

#[derive(Default)]
pub(super) struct Ticks {
    /// The last known time, in ms since 1970, and the moment of it.
    known: Option<(u64, Moment)>,
    records: HashMap<Arc<str>, Record>,
    purge_above: usize,
}

struct Record {
    at_ms: u64,
    /// `None`: this tick is still to be run, and those before it are over.
    by: Option<Token>,
    /// When the caller that has run it asked, and when that was granted the lock, if its run has not
    /// ended. These and the end of the record are in ms since 1970.
    asked: u64,
    granted: Option<u64>,
    ends: u64,
}

impl Record {
    /// Its caller has left before its body began: the tick is open again.
    fn undo(&mut self) {
        (self.by, self.granted) = (None, None);
    }

    /// It was run, or is about to be, and not by this token.
    fn is_over(&self, token: &Token) -> bool {
        self.by.as_ref().is_some_and(|by| by != token)
    }
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

    /// The locks of which a tick is recorded.
    pub(super) fn names(&mut self, now: Moment) -> Vec<Arc<str>> {
        let time = self.time(now);
        self.records
            .iter()
            .filter(|(_, record)| record.ends > time)
            .map(|(name, _)| Arc::clone(name))
            .collect()
    }

    /// True when a tick was recorded.
    pub(super) fn clear(&mut self, name: &Arc<str>, now: Moment) -> bool {
        let time = self.time(now);
        let was_known = self.record(name, time).is_some();
        self.records.remove(name);
        was_known
    }

    /// `acquire` takes the lock, if the tick is still to be run.
    pub(super) fn acquire(
        &mut self,
        request: &Request,
        of: &TickRequest,
        mode: Mode,
        lock: &mut MemoryLock,
        now: Moment,
        acquire: impl FnOnce(&mut MemoryLock) -> Verdict,
    ) -> Verdict {
        let TickRequest { tick, asked, effect } = of;
        let time = self.time(now);
        let asked = time.saturating_sub(in_ms(now.since(*asked)));
        let at_ms = tick.at_ms.unwrap_or_else(|| self.name(request, asked, tick.every_ms, time));
        let ends = at_ms.saturating_add(in_ms(tick.keeps()));
        let verdict = if ends <= time {
            Verdict::TickUnknown { is_ahead: false }
        } else if tick.every_ms == 0 && at_ms > time.saturating_add(in_ms(AHEAD)) {
            Verdict::TickUnknown { is_ahead: true }
        } else if let Some((taken, settles)) = self.taken(request, at_ms, asked, tick.every_ms, time) {
            match settles.filter(|(by, _)| mode != Mode::OneTry && lock.is(by)) {
                Some((_, settles)) => busy_for(acquire(lock), settles),
                None => taken,
            }
        } else {
            let verdict = acquire(lock);
            if *effect == TickEffect::Record && verdict.fence().is_some() {
                let by = Some(request.token.clone());
                self.write(request, Record { at_ms, by, asked, granted: Some(time), ends }, time);
            }
            verdict
        };
        Verdict::OfTick { at_ms, verdict: Box::new(verdict) }
    }

    /// The tick of a call: as the comments of `tick.lua` say.
    fn name(&mut self, request: &Request, asked: u64, every_ms: u64, time: u64) -> u64 {
        let at_ms = named(asked, every_ms);
        match self.record(&request.name, time) {
            Some(last) if last.by.as_ref() == Some(&request.token) => last.at_ms,
            Some(last)
                if last.is_over(&request.token)
                    && last.at_ms == at_ms
                    && asked >= last.asked.saturating_add(every_ms - early(every_ms)) =>
            {
                at_ms.saturating_add(every_ms)
            }
            _ => at_ms,
        }
    }

    /// The answer to a caller whose tick is taken. Where the tick may be given back soon, it also
    /// says by whom the tick is taken, and for how long the caller waits for that.
    fn taken(
        &mut self,
        request: &Request,
        at_ms: u64,
        asked: u64,
        every_ms: u64,
        time: u64,
    ) -> Option<(Verdict, Option<(Token, Duration)>)> {
        let last = self.record(&request.name, time)?;
        let by = last.by.as_ref().and_then(|by| token::owner_of(by.value()));
        let taken = Verdict::TickTaken { last_ms: last.at_ms, by };
        if last.at_ms > at_ms {
            return Some((taken, None));
        }
        let is_of_last = last.at_ms == at_ms || asked.abs_diff(last.asked) < early(every_ms);
        if !last.is_over(&request.token) || !is_of_last {
            return None;
        }
        let since = last.granted.and_then(|granted| time.checked_sub(granted));
        let settles = since.and_then(|since| in_ms(SETTLES).checked_sub(since)).filter(|left| *left > 0);
        Some((taken, settles.zip(last.by.clone()).map(|(left, by)| (by, Duration::from_millis(left)))))
    }

    /// A release says what becomes of the tick. `is_held`: the token has the lock until now.
    pub(super) fn end(&mut self, request: &Request, is_held: bool, now: Moment) {
        let Some(TickRequest { tick, asked, effect }) = request.kind.tick() else { return };
        let time = self.time(now);
        match (effect, tick.at_ms) {
            (TickEffect::Record, Some(at_ms)) if is_held => {
                let ends = at_ms.saturating_add(in_ms(tick.keeps()));
                let (by, asked) =
                    (Some(request.token.clone()), time.saturating_sub(in_ms(now.since(*asked))));
                self.write(request, Record { at_ms, by, asked, granted: None, ends }, time);
            }
            (TickEffect::Undo, _) => {
                let of_this = self.record(&request.name, time);
                if let Some(record) = of_this.filter(|record| record.by.as_ref() == Some(&request.token)) {
                    record.undo();
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

/// The caller asks again when this is over.
fn busy_for(verdict: Verdict, settles: Duration) -> Verdict {
    match verdict {
        Verdict::Busy { mut holder, place } => {
            holder.expires_in = holder.expires_in.map(|left| left.min(settles));
            Verdict::Busy { holder, place }
        }
        other => other,
    }
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
