//! The order of the requests for a slot of a Cluster, while nodes send them elsewhere and
//! connections break.
//!
//! A release must not overtake its acquire: the lock would stay taken, without a holder, until its
//! ttl. On one connection the order of sending is enough. Here a node may send a request elsewhere,
//! and then the later requests for its slot wait behind it until none is in flight any more. No
//! I/O, no clock.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use crate::base::host::HashMap;

use crate::base::clock::Moment;
use crate::base::token::Token;
use crate::engine::protocol::{Action, Id, Request};
use crate::engine::slots::Slot;
use crate::engine::timers::Backoff;

/// The pause before the node of a slot that could not serve is asked again.
const ASK_AGAIN: Backoff =
    Backoff { shortest: Duration::from_millis(4), longest: Duration::from_millis(100) };

/// The state of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    /// Requests are numbered as they come.
    pub(super) sequence: u64,
    pub(super) slot: Slot,
    /// The time when it came.
    pub(super) since: Moment,
    /// How often it has been sent elsewhere.
    pub(super) redirects: u32,
    /// It was sent over a connection that broke: it may have been done.
    pub(super) unanswered: bool,
    /// It was sent to a node that does not own the slot yet.
    pub(super) asking: bool,
}

/// A request that waits to be sent.
pub(super) struct Deferred {
    pub(super) in_flight: InFlight,
    pub(super) id: Id,
    pub(super) request: Request,
}

impl Deferred {
    /// True for a request for a lock that was refused, or not sent: no node has done anything of
    /// it.
    pub(super) fn is_undone_ask(&self) -> bool {
        !self.in_flight.unanswered && self.request.action.takes()
    }
}

/// The requests for one slot that are in flight or wait.
pub(super) struct SlotQueue {
    /// The node that the requests in flight were sent to.
    node: usize,
    in_flight: usize,
    /// How many of these went to a node that does not own the slot yet.
    asking: usize,
    waiting: BTreeMap<u64, Deferred>,
    /// Their sequence numbers, by token.
    of_token: HashMap<Token, Vec<u64>>,
    /// No request is sent before this.
    not_before: Option<Moment>,
    pauses: u32,
    /// Why requests wait.
    pub(super) reason: Option<Arc<str>>,
}

impl SlotQueue {
    pub(super) fn new() -> Self {
        Self {
            node: usize::MAX,
            in_flight: 0,
            asking: 0,
            waiting: BTreeMap::new(),
            of_token: HashMap::default(),
            not_before: None,
            pauses: 0,
            reason: None,
        }
    }

    /// True when a new request may go to `node` at once.
    pub(super) fn is_free(&self, node: usize) -> bool {
        self.waiting.is_empty() && self.asking == 0 && (self.in_flight == 0 || self.node == node)
    }

    /// True when a redirected request may be sent at once: no earlier one waits. One about a held
    /// lock waits only for those about the same: while a slot moves, what asks for a lock is
    /// refused and waits, for as long as that takes.
    pub(super) fn may_redirect(&self, request: &Request) -> bool {
        let is_about_held = matches!(request.action, Action::Renew { .. } | Action::Watch);
        self.waiting.is_empty() || is_about_held && !self.of_token.contains_key(&request.token)
    }

    pub(super) fn has_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// The node that the requests in flight were sent to.
    pub(super) fn node(&self) -> usize {
        self.node
    }

    pub(super) fn sent(&mut self, node: usize, in_flight: &InFlight) {
        self.in_flight += 1;
        if in_flight.asking {
            self.asking += 1;
        } else {
            self.node = node;
        }
    }

    /// The request is no longer in flight.
    pub(super) fn back(&mut self, in_flight: &mut InFlight) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if std::mem::take(&mut in_flight.asking) {
            self.asking = self.asking.saturating_sub(1);
        }
    }

    /// The node has done it.
    pub(super) fn served(&mut self, in_flight: &InFlight, id: Id, request: &Request) {
        self.pauses = 0;
        if request.action == Action::Release {
            self.withdraw(&request.token, id, in_flight.sequence);
        }
    }

    /// Waits behind the requests that came before. Returns those that its release makes pointless.
    pub(super) fn defer(&mut self, deferred: Deferred) -> Vec<Deferred> {
        let withdrawn = match deferred.request.action {
            Action::Release => {
                self.withdraw(&deferred.request.token, deferred.id, deferred.in_flight.sequence)
            }
            _ => Vec::new(),
        };
        self.of_token.entry(deferred.request.token.clone()).or_default().push(deferred.in_flight.sequence);
        self.waiting.insert(deferred.in_flight.sequence, deferred);
        withdrawn
    }

    /// Drops the requests that came before the release `id` of their token: no caller waits for them,
    /// and an acquire must not come behind its release. Another release of the token stays, because
    /// its caller waits for the answer: a place in the queue and the lock may be released one by one.
    fn withdraw(&mut self, token: &Token, id: Id, before: u64) -> Vec<Deferred> {
        let is_other_release = |deferred: &Deferred| {
            deferred.id != id && matches!(deferred.request.action, Action::Release | Action::ExpireLater)
        };
        self.remove(token, |deferred| deferred.in_flight.sequence <= before && !is_other_release(deferred))
    }

    /// True when the release of this token waits: the caller has left.
    pub(super) fn is_left(&self, token: &Token) -> bool {
        let waits = |sequence| Some(self.waiting.get(sequence)?.request.action);
        let sequences = self.of_token.get(token).into_iter().flatten();
        sequences.filter_map(waits).any(|action| action == Action::Release)
    }

    /// Drops a request for the lock with this token that was never sent. True when there was one.
    pub(super) fn take_back(&mut self, token: &Token) -> bool {
        !self.remove(token, Deferred::is_undone_ask).is_empty()
    }

    fn remove(&mut self, token: &Token, is_over: impl Fn(&Deferred) -> bool) -> Vec<Deferred> {
        let mut removed = Vec::new();
        let Some(sequences) = self.of_token.get_mut(token) else {
            return removed;
        };
        sequences.retain(|sequence| match self.waiting.entry(*sequence) {
            Entry::Occupied(deferred) if is_over(deferred.get()) => {
                removed.push(deferred.remove());
                false
            }
            Entry::Occupied(_) => true,
            Entry::Vacant(_) => false,
        });
        if sequences.is_empty() {
            self.of_token.remove(token);
        }
        removed
    }

    /// Sends no request for the slot for a moment.
    pub(super) fn pause(&mut self, now: Moment) {
        if self.not_before.is_none_or(|at| at <= now) {
            self.not_before = Some(now.after(ASK_AGAIN.pause(self.pauses)));
            self.pauses = self.pauses.saturating_add(1);
        }
    }

    /// All that wait, if they may be sent now.
    pub(super) fn take_ready(&mut self, now: Moment) -> Vec<Deferred> {
        if self.in_flight > 0 || self.not_before.is_some_and(|at| at > now) {
            return Vec::new();
        }
        self.not_before = None;
        self.take_all()
    }

    pub(super) fn take_all(&mut self) -> Vec<Deferred> {
        self.of_token.clear();
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    /// Those that have waited for `limit`.
    pub(super) fn take_overdue(&mut self, now: Moment, limit: Duration) -> Vec<Deferred> {
        let mut overdue = Vec::new();
        while let Some(first) = self.waiting.first_entry()
            && now.since(first.get().in_flight.since) >= limit
        {
            let (sequence, deferred) = first.remove_entry();
            if let Some(sequences) = self.of_token.get_mut(&deferred.request.token) {
                sequences.retain(|other| *other != sequence);
                if sequences.is_empty() {
                    self.of_token.remove(&deferred.request.token);
                }
            }
            overdue.push(deferred);
        }
        overdue
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }

    /// Returns when a request may be sent, or has waited for too long. After the pause it waits for
    /// its node, which is an event.
    pub(super) fn due(&self, now: Moment, limit: Duration) -> Option<Moment> {
        let overdue = self.waiting.values().next().map(|deferred| deferred.in_flight.since.after(limit));
        let ready = self.not_before.filter(|at| *at > now && self.in_flight == 0 && self.is_waiting());
        [overdue, ready].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::protocol::Mode;

    const LIMIT: Duration = Duration::from_secs(1);
    const RENEW: Action = Action::Renew { nth: 0, shortens: false };

    fn deferred(sequence: u64, action: Action, token: &str, now: Moment) -> Deferred {
        let slot = Slot::of("k");
        let in_flight =
            InFlight { sequence, slot, since: now, redirects: 0, unanswered: false, asking: false };
        let token = Token::from_value(token);
        let request = Request::new(action, "k".into(), token, LIMIT);
        Deferred { in_flight, id: sequence, request }
    }

    fn acquire(sequence: u64, token: &str, now: Moment) -> Deferred {
        deferred(sequence, Action::Acquire(Mode::OneTry), token, now)
    }

    fn sequences(deferred: &[Deferred]) -> Vec<u64> {
        deferred.iter().map(|deferred| deferred.in_flight.sequence).collect()
    }

    #[test]
    fn a_redirected_request_goes_before_the_later_ones() {
        let (mut queue, now) = (SlotQueue::new(), Moment::now());
        let (mut first, mut second) = (acquire(1, "a", now), deferred(2, RENEW, "b", now));
        for request in [&first, &second] {
            assert!(queue.is_free(7));
            queue.sent(7, &request.in_flight);
        }
        assert!(!queue.is_free(8), "the slot has moved, and requests to its old node are in flight");
        queue.back(&mut first.in_flight);
        queue.defer(deferred(3, RENEW, "c", now));
        queue.defer(first);
        assert!(!queue.is_free(7) && !queue.is_free(8));
        let may_redirect = |action, token| queue.may_redirect(&deferred(4, action, token, now).request);
        assert!(!may_redirect(Action::Acquire(Mode::OneTry), "d") && !may_redirect(RENEW, "c"));
        assert!(may_redirect(RENEW, "b"), "no lock is lost for those that others ask for");
        assert!(queue.take_ready(now).is_empty(), "the second is still in flight");
        queue.back(&mut second.in_flight);
        assert_eq!(sequences(&queue.take_ready(now)), [1, 3]);
        assert!(queue.is_empty() && queue.is_free(8));
    }

    #[test]
    fn a_request_to_the_next_owner_holds_the_others_back() {
        let (mut queue, now) = (SlotQueue::new(), Moment::now());
        let mut first = acquire(1, "a", now);
        first.in_flight.asking = true;
        queue.sent(8, &first.in_flight);
        assert!(!queue.is_free(7), "its release would overtake it");
        queue.back(&mut first.in_flight);
        assert!(queue.is_free(7) && !first.in_flight.asking);
    }

    #[test]
    fn nothing_is_asked_for_after_its_release() {
        let (mut queue, now) = (SlotQueue::new(), Moment::now());
        queue.defer(acquire(1, "a", now));
        queue.defer(acquire(2, "b", now));
        assert!(!queue.is_left(&Token::from_value("a")));
        assert_eq!(sequences(&queue.defer(deferred(3, Action::Release, "a", now))), [1], "it is answered");
        assert!(queue.is_left(&Token::from_value("a")) && !queue.is_left(&Token::from_value("b")));
        assert_eq!(sequences(&queue.take_ready(now)), [2, 3]);
        queue.defer(acquire(4, "c", now));
        let release = deferred(5, Action::Release, "c", now);
        queue.served(&release.in_flight, release.id, &release.request);
        queue.defer(acquire(6, "c", now));
        assert_eq!(sequences(&queue.take_ready(now)), [6]);
    }

    #[test]
    fn a_release_drops_no_other_release_of_its_token() {
        let (mut queue, now) = (SlotQueue::new(), Moment::now());
        queue.defer(acquire(1, "a", now));
        let sequences_dropped = |queue: &mut SlotQueue, action, sequence| {
            sequences(&queue.defer(deferred(sequence, action, "a", now)))
        };
        assert_eq!(sequences_dropped(&mut queue, Action::ExpireLater, 2), [0; 0]);
        assert_eq!(sequences_dropped(&mut queue, Action::Release, 3), [1]);
        assert_eq!(sequences_dropped(&mut queue, Action::Release, 4), [0; 0]);
        // A release that is sent again.
        let again = Deferred { id: 4, ..deferred(5, Action::Release, "a", now) };
        assert_eq!(sequences(&queue.defer(again)), [4]);
        let served = deferred(6, Action::Release, "a", now);
        queue.served(&served.in_flight, served.id, &served.request);
        assert_eq!(sequences(&queue.take_ready(now)), [2, 3, 5]);
    }

    #[test]
    fn a_slot_that_cannot_serve_is_asked_again_after_a_pause_until_the_limit() {
        let (mut queue, now) = (SlotQueue::new(), Moment::now());
        queue.defer(acquire(1, "a", now));
        queue.pause(now);
        assert!(queue.take_ready(now).is_empty());
        let later = queue.due(now, LIMIT).unwrap_or(now);
        assert!(later > now && later < now.after(LIMIT));
        // Its node has no connection then.
        assert_eq!(queue.due(later, LIMIT), Some(now.after(LIMIT)));
        assert_eq!(sequences(&queue.take_ready(later)), [1]);
        queue.defer(acquire(1, "a", now));
        queue.defer(acquire(2, "b", later));
        assert!(queue.take_overdue(later, LIMIT).is_empty());
        assert_eq!(sequences(&queue.take_overdue(now.after(LIMIT), LIMIT)), [1]);
    }
}
