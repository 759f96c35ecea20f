//! The ticks of a run: which was run by whom, and what must hold for each. One that is skipped when
//! its runner dies is begun once. One that is retried is taken only when a body has ended well.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use redlock_runtime::{LockError, LockGuard, TickMissed};

use crate::oracle::CallId;
use crate::run::judge;

thread_local! {
    static TICKS: RefCell<Ticks> = RefCell::default();
}

type Tick = (u8, SystemTime);

#[derive(Default)]
struct Ticks {
    /// Who has begun each first.
    begun: BTreeMap<Tick, CallId>,
    /// Those that a body has ended well, under its lock.
    well: BTreeSet<Tick>,
}

/// Begins a new run.
pub fn begin() {
    TICKS.with_borrow_mut(|ticks| *ticks = Ticks::default());
}

/// The body of a caller begins.
pub fn on_begun(key: u8, missed: TickMissed, guard: &LockGuard, call: CallId) {
    let Some(tick) = guard.tick() else {
        judge(|oracle| oracle.tick(&crate::callers::key(key), &format!("call {call} knows of none")));
        return;
    };
    let before = TICKS.with_borrow_mut(|ticks| ticks.begun.insert((key, tick), call));
    if let Some(before) = before.filter(|_| missed == TickMissed::Skip) {
        let what = format!("calls {before} and {call} have begun the one of {tick:?}");
        judge(|oracle| oracle.tick(&crate::callers::key(key), &what));
    }
}

/// It ends, with a release under a lock that is still held.
pub fn on_ended_well(key: u8, guard: &LockGuard) {
    if let Some(tick) = guard.tick() {
        TICKS.with_borrow_mut(|ticks| ticks.well.insert((key, tick)));
    }
}

/// A caller learns that its tick is over.
pub fn on_taken(key: u8, missed: TickMissed, error: &LockError, call: CallId) {
    let LockError::TickTaken { tick, .. } = error else { return };
    let is_well = TICKS.with_borrow(|ticks| ticks.well.contains(&(key, *tick)));
    if missed == TickMissed::Retry && !is_well {
        let what = format!("that of {tick:?} is taken for call {call}, and no body has ended it well");
        judge(|oracle| oracle.tick(&crate::callers::key(key), &what));
    }
}
