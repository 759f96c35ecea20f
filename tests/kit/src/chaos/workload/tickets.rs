//! Locks that travel: a caller gives its lock away into a ticket, and a caller of another process
//! redeems it.
//!
//! A ticket goes to the run in a line of numbers, as each report does, and from there to the
//! standard input of a process, or of two: one of them comes too late. A process that is frozen
//! redeems it when it goes on.

use std::time::Duration;

use redlocked::Ticket;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::chaos::workload::caller::{Caller, look_for};
use crate::chaos::workload::report::{CallParams, CallReport, HoldReport};
use crate::{Line, now, say};

/// The bytes of a ticket in one number, behind a 1.
const BYTES: usize = 7;

impl Caller {
    /// Gives its locks away, one after the other.
    pub(crate) async fn gives_away(mut self, ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            self.gives_one_away().await;
            sleep(Duration::from_millis(self.random.between(0, 40))).await;
        }
    }

    async fn gives_one_away(&mut self) {
        let (request, call_params) = self.request();
        let stays = Duration::from_millis(self.random.between(0, 60));
        // No process has a call for the lock in that time.
        let lasts = Duration::from_millis([60, 300, 1000, 1500][self.random.index(4)]);
        let call = CallReport::begin(call_params, &self.ticker);
        let guard = match request.acquire().await {
            Ok(guard) => guard,
            Err(error) => return call.comes_back(&Err::<(), _>(error)),
        };
        call.enters();
        let Some(report) = HoldReport::begin(&guard, call_params) else {
            call.leaves();
            return call.comes_back(&guard.release().await);
        };
        look_for(&report, stays).await;
        say("write", &[call_params.hold, now()]);
        let leaving = report.gives_away(lasts);
        call.leaves();
        let given = guard.into_ticket(lasts).await;
        leaving.ends(given.is_ok());
        if let Ok(ticket) = &given {
            let mut numbers = vec![call_params.hold];
            numbers.extend(numbers_of(ticket));
            say("ticket", &numbers);
        }
        call.comes_back(&given);
    }

    /// Redeems the tickets that come to this process, until its standard input ends.
    pub(crate) async fn redeems(mut self, mut tickets: UnboundedReceiver<String>) {
        while let Some(words) = tickets.recv().await {
            let ticket = ticket_of(&words);
            let key = ticket.key().trim_start_matches('k').parse().unwrap();
            let ttl = Duration::from_millis(self.ttls[self.random.index(4)]);
            let wait = Duration::from_millis([0, 2000][self.random.index(2)]);
            let stays = Duration::from_millis(self.random.between(5, 150));
            let call_params = CallParams { key, hold: self.number(), ttl, wait, allows: None };
            let request = self.locks.redeem(ticket).ttl(ttl).wait(wait).min_hold(Duration::ZERO);
            self.holds(request, call_params, async |_, report| {
                say("redeemed", &[call_params.hold]);
                look_for(report, stays).await;
                say("write", &[call_params.hold, now()]);
            })
            .await;
        }
    }
}

fn numbers_of(ticket: &Ticket) -> Vec<u64> {
    let text = ticket.expose();
    let number = |bytes: &[u8]| bytes.iter().fold(1, |number, byte| number << 8 | u64::from(*byte));
    text.as_bytes().chunks(BYTES).map(number).collect()
}

fn ticket_of(words: &str) -> Ticket {
    let mut text = Vec::new();
    for word in words.split(' ') {
        let bytes = word.parse::<u64>().unwrap().to_be_bytes();
        let before = bytes.iter().position(|byte| *byte > 0).unwrap();
        text.extend_from_slice(&bytes[before + 1..]);
    }
    String::from_utf8(text).unwrap().parse().unwrap()
}

/// The tickets of a run.
#[derive(Default)]
pub struct Tickets {
    /// How many callers have given their lock away.
    pub given: u64,
    /// How many callers have redeemed one.
    pub redeemed: u64,
    /// Those that no process has been told.
    waiting: Vec<String>,
}

impl Tickets {
    /// True when the report is about tickets.
    pub(crate) fn hear(&mut self, line: &Line) -> bool {
        match (line.word.as_str(), &line.numbers[..]) {
            ("ticket", [_, ticket @ ..]) => {
                self.given += 1;
                self.waiting.push(ticket.iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
            }
            ("redeemed", _) => self.redeemed += 1,
            _ => return false,
        }
        true
    }

    /// Those that came since the last call.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redlocked::LockManager;

    use super::{numbers_of, ticket_of};

    #[test]
    fn a_ticket_is_the_same_behind_its_numbers() {
        let locks = LockManager::connect_blocking("memory://chaos-tickets").unwrap();
        for key in ["k", "k1", "k12", "k123"] {
            let guard = locks.lock(key).acquire_blocking().unwrap();
            let ticket = guard.into_ticket_blocking(Duration::from_secs(1)).unwrap();
            let words: Vec<String> = numbers_of(&ticket).iter().map(u64::to_string).collect();
            assert_eq!(ticket_of(&words.join(" ")), ticket);
        }
    }
}
