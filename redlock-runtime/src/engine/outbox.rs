//! The requests that wait to be sent, in their order. A request for a lock can be taken back until
//! it is sent: it needs no release then, so many calls that end before their turn cost the server
//! nothing.

use std::collections::VecDeque;

use super::fifo::{Fifo, Item};
use super::protocol::{Action, Id, Request};

/// The most requests in one batch; only a call for several keys may exceed it. After a reconnect, a
/// hundred thousand held locks are renewed: as one batch, they would take the server longer than
/// the time limit of a reply.
const LARGEST: usize = 1000;

/// A request, perhaps with its route.
pub(super) trait Unsent {
    fn request(&self) -> (Id, &Request);

    /// True when it may have been executed before, so it needs a release.
    fn is_repeated(&self) -> bool {
        false
    }
}

impl Unsent for (Id, Request) {
    fn request(&self) -> (Id, &Request) {
        (self.0, &self.1)
    }
}

pub(super) struct Outbox<T = (Id, Request)> {
    /// Sent first: a held lock must not be lost behind a long queue of acquires and releases.
    urgent: VecDeque<T>,
    requests: Fifo<Entry<T>>,
}

struct Entry<T>(T);

impl<T: Unsent> Item for Entry<T> {
    fn id(&self) -> Option<Id> {
        let (id, request) = self.0.request();
        (is_ask(request.action) && !self.0.is_repeated()).then_some(id)
    }
}

/// True for a request for a lock.
fn is_ask(action: Action) -> bool {
    action.takes() || matches!(action, Action::Vote { .. })
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self { urgent: VecDeque::new(), requests: Fifo::default() }
    }
}

impl<T: Unsent> Outbox<T> {
    pub(super) fn push(&mut self, request: T) {
        self.requests.push(Entry(request));
    }

    /// Ahead of all that are not urgent. No other request of the same lock may be unsent.
    pub(super) fn push_urgent(&mut self, request: T) {
        self.urgent.push_back(request);
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.urgent.front().or_else(|| self.requests.front().map(|entry| &entry.0))
    }

    fn pop(&mut self) -> Option<T> {
        self.urgent.pop_front().or_else(|| self.requests.pop().map(|entry| entry.0))
    }

    /// The last request that is not urgent, if it has not been taken back.
    pub(super) fn last(&self) -> Option<&T> {
        self.requests.last().map(|entry| &entry.0)
    }

    pub(super) fn len(&self) -> usize {
        self.urgent.len() + self.requests.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.requests.is_empty()
    }

    /// True when there is a batch to take.
    pub(super) fn has_any(&self, room: usize) -> bool {
        !self.urgent.is_empty() || room > 0 && !self.requests.is_empty()
    }

    /// The next batch, as far as its requests are `alike`: urgent ones, and up to `room` others. A
    /// call for several keys is not split.
    pub(super) fn take(&mut self, room: usize, alike: impl Fn(&T) -> bool) -> Vec<T> {
        let mut batch =
            Vec::with_capacity(self.len().min(room.saturating_add(self.urgent.len())).min(LARGEST));
        while batch.len() < LARGEST && self.urgent.front().is_some_and(&alike) {
            batch.extend(self.urgent.pop_front());
        }
        if !self.urgent.is_empty() {
            return batch;
        }
        let room = room.min(LARGEST - batch.len()) + batch.len();
        while let Some(next) = self.requests.front().map(|entry| &entry.0)
            && alike(next)
            && (batch.len() < room || matches!(next.request().1.action, Action::AcquireNext { .. }))
        {
            batch.extend(self.requests.pop().map(|entry| entry.0));
        }
        batch
    }

    /// The next requests that ask for no lock: no server has more to do because of them, however many
    /// are in flight. As far as they are `alike`; none when one that asks is first.
    pub(super) fn take_releases(&mut self, alike: impl Fn(&T) -> bool) -> Vec<T> {
        self.take(LARGEST, |request| !is_ask(request.request().1.action) && alike(request))
    }

    /// The unsent request of `id` for a lock, which will not be sent now.
    pub(super) fn take_back(&mut self, id: Id) -> Option<T> {
        self.requests.remove(id).map(|entry| entry.0)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        let mut all = std::mem::take(self);
        std::iter::from_fn(move || all.pop())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::token::Token;
    use crate::engine::protocol::Mode;

    const ACQUIRE: Action = Action::Acquire(Mode::OneTry);
    const RENEW: Action = Action::Renew { nth: 0, shortens: false };

    fn outbox(actions: &[(Id, Action)]) -> Outbox {
        let mut outbox = Outbox::default();
        for &(id, action) in actions {
            let (name, token) = ("k".into(), Token::empty());
            outbox.push((id, Request::new(action, name, token, Duration::ZERO)));
        }
        outbox
    }

    fn ids(requests: impl IntoIterator<Item = (Id, Request)>) -> Vec<Id> {
        requests.into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn releases_are_taken_up_to_the_first_that_asks_for_a_lock() {
        let all = [(1, Action::Release), (2, RENEW), (3, ACQUIRE), (4, Action::Release)];
        let mut outbox = outbox(&all);
        assert_eq!(ids(outbox.take_releases(|_| true)), [1, 2]);
        assert_eq!(ids(outbox.take_releases(|_| true)), [0; 0]);
        assert_eq!(ids(outbox.take_all()), [3, 4]);
    }

    #[test]
    fn only_requests_for_a_lock_are_taken_back() {
        let mut outbox = outbox(&[(1, RENEW), (2, ACQUIRE), (1, Action::Release), (3, ACQUIRE)]);
        assert!(outbox.take_back(1).is_none());
        assert!(outbox.take_back(2).is_some() && outbox.take_back(2).is_none());
        assert_eq!(ids(outbox.take_all()), [1, 1, 3]);
    }

    #[test]
    fn urgent_requests_go_first() {
        let mut outbox = outbox(&[(1, Action::Release), (2, ACQUIRE)]);
        let (name, token) = ("k".into(), Token::empty());
        let renewal = Request::new(RENEW, name, token, Duration::ZERO);
        outbox.push_urgent((3, renewal.clone()));
        outbox.push_urgent((4, renewal));
        assert_eq!(ids(outbox.take(1, |_| true)), [3, 4, 1]);
        assert_eq!(ids(outbox.take_all()), [2]);
    }

    #[test]
    fn a_batch_is_as_large_as_there_is_room_and_parts_no_call() {
        let next = |after| Action::AcquireNext { mode: Mode::OneTry, after };
        let all = [(1, ACQUIRE), (2, ACQUIRE), (3, next(2)), (4, next(3)), (5, ACQUIRE)];
        let mut outbox = outbox(&all);
        assert_eq!(ids(outbox.take(2, |_| true)), [1, 2, 3, 4]);
        assert_eq!(ids(outbox.take(2, |_| true)), [5]);
        let mut many = self::outbox(&vec![(1, RENEW); LARGEST + 1]);
        assert_eq!(
            [many.take(usize::MAX, |_| true).len(), many.take(usize::MAX, |_| true).len()],
            [LARGEST, 1]
        );
    }
}
