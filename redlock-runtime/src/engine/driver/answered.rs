//! A batch of replies. In a runtime of one thread, where callers go on only while the loop pauses, it is handed out in portions:
//! the server works on what the callers of one portion ask for next, while those of the next one go on. All at once, they would
//! ask again in one batch, and the callers and the server would work in turn.

use std::iter::Zip;
use std::vec;

use crate::engine::protocol::{Action, Id, Reply, Request};
use crate::ground::clock::Moment;

/// The fewest callers that go on at a time: a write for fewer costs more than it gains.
pub(super) const FEWEST: usize = 8;

pub(super) struct Answered {
    /// When the requests were sent.
    pub(super) sent: Moment,
    left: Zip<vec::IntoIter<(Id, Request)>, vec::IntoIter<Reply>>,
    portion: usize,
}

impl Answered {
    /// `in_flight`: so many other requests are unanswered. `None` where callers go on meanwhile.
    pub(super) fn new(
        sent: Moment,
        requests: Vec<(Id, Request)>,
        replies: Vec<Reply>,
        in_flight: Option<usize>,
    ) -> Self {
        let portion = in_flight.map_or(usize::MAX, |others| replies.len().midpoint(others).max(FEWEST));
        Self { sent, left: requests.into_iter().zip(replies), portion }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.len() == 0
    }

    pub(super) fn portion(&mut self) -> impl Iterator<Item = ((Id, Request), Reply)> {
        let mut callers = self.portion;
        std::iter::from_fn(move || {
            let next = if callers > 0 { self.left.next() } else { None };
            if let Some(((_, request), _)) = &next {
                callers -= usize::from(has_caller(request.action));
            }
            next
        })
    }
}

/// True when a caller may go on after the reply.
fn has_caller(action: Action) -> bool {
    matches!(action, Action::Acquire(_) | Action::AcquireNext { .. } | Action::Release)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ground::token::Token;

    /// How many replies each portion has, where so many other requests are in flight.
    fn portions(action: Action, count: usize, in_flight: Option<usize>) -> Vec<usize> {
        let request = Request::new(action, "k".into(), Token::empty(), Duration::ZERO);
        let (requests, replies) = (vec![(1, request); count], vec![Reply::Done; count]);
        let mut answered = Answered::new(Moment::now(), requests, replies, in_flight);
        let mut portions = Vec::new();
        while !answered.is_empty() {
            portions.push(answered.portion().count());
        }
        portions
    }

    #[test]
    fn half_of_all_requests_are_with_the_server_while_callers_go_on() {
        assert_eq!(portions(Action::Release, 64, Some(0)), [32, 32]);
        assert_eq!(portions(Action::Release, 40, Some(10)), [25, 15]);
        assert_eq!(portions(Action::Release, 32, Some(32)), [32]);
        assert_eq!(portions(Action::Release, FEWEST + 1, Some(0)), [FEWEST, 1]);
        assert_eq!(portions(Action::Release, 64, None), [64], "callers on other threads go on anyway");
    }

    #[test]
    fn replies_that_no_caller_waits_for_are_handed_out_at_once() {
        let renew = Action::Renew { nth: 0, shortens: false };
        assert_eq!(portions(renew, 1000, Some(0)), [1000]);
    }
}
