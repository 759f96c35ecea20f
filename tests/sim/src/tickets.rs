//! The tickets of a run, on their way from one process to another, and what must hold for each: it
//! is redeemed once, and is good for its time where nothing is wrong.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use redlock_runtime::Ticket;
use tokio::time::Instant;

use crate::oracle::CallId;
use crate::run::judge;

thread_local! {
    static TICKETS: RefCell<BTreeMap<u8, Given>> = const { RefCell::new(BTreeMap::new()) };
}

/// The last ticket of a lock.
#[derive(Clone)]
pub struct Given {
    /// What travels.
    pub ticket: Ticket,
    /// Who has given the lock away.
    by: CallId,
    /// When the ticket was asked for, and for how long.
    since: Instant,
    lasts: Duration,
    /// So many callers have tried to redeem it.
    tries: u32,
    redeemed_by: Option<CallId>,
}

/// Begins a new run.
pub fn begin() {
    TICKETS.with(|tickets| tickets.borrow_mut().clear());
}

/// A caller has a ticket for a lock, which it has asked for at `since`.
pub fn give(key: u8, by: CallId, ticket: Ticket, since: Instant, lasts: Duration) {
    let given = Given { ticket, by, since, lasts, tries: 0, redeemed_by: None };
    TICKETS.with(|tickets| tickets.borrow_mut().insert(key, given));
}

/// A caller tries to redeem the last ticket of a lock, whoever has done so before.
#[must_use]
pub fn take(key: u8) -> Option<Given> {
    TICKETS.with(|tickets| {
        let mut tickets = tickets.borrow_mut();
        let given = tickets.get_mut(&key)?;
        given.tries += 1;
        Some(given.clone())
    })
}

/// A caller has redeemed it.
pub fn on_redeemed(key: u8, given: &Given, call: CallId) {
    let before = TICKETS.with(|tickets| {
        let mut tickets = tickets.borrow_mut();
        let ours = tickets.get_mut(&key).filter(|last| last.by == given.by)?;
        ours.redeemed_by.replace(call)
    });
    if let Some(before) = before {
        let what = format!("calls {before} and {call} have redeemed that of call {}", given.by);
        judge(|oracle| oracle.redeemed_again(&crate::callers::key(key), what));
    }
}

/// A caller has heard that it is worth nothing.
pub fn on_lost(key: u8, given: &Given, call: CallId) {
    let is_only = TICKETS.with(|tickets| {
        tickets.borrow().get(&key).is_some_and(|last| last.by == given.by && last.tries == 1)
    });
    // A clock of a server or of a process may be quicker by a hundredth.
    if is_only && given.since.elapsed() < given.lasts * 97 / 100 {
        let what = format!("that of call {} is worth nothing to call {call}", given.by);
        judge(|oracle| oracle.ticket_is_lost(&crate::callers::key(key), what));
    }
}
