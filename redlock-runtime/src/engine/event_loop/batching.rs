//! How many requests and replies go together.
//!
//! A batch of replies: in a runtime of one thread, where callers go on only while the loop pauses,
//! it is handed out in portions. The server works on what the callers of one portion ask for next,
//! while those of the next one go on. All at once, they would ask again in one batch, and the
//! callers and the server would work in turn.
//!
//! The commands of callers that can run now are read together. A worker thread of tokio runs the
//! task that was woken last before those that were woken earlier: a loop that is woken by the first
//! of many callers would read its command, and write it, before the second caller runs, and so on
//! for each of them. So the loop lets the other tasks run once. With a server that has little else
//! to do, the command would only be late.

use std::iter::Zip;
use std::vec;

use crate::base::clock::Moment;
use crate::base::host;
use crate::engine::protocol::{Action, Id, Reply, Request};

/// The fewest callers that go on at a time: a write for fewer costs more than it gains.
const FEWEST: usize = 8;

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
    action.takes() || action == Action::Release
}

#[derive(Default)]
pub(super) struct Gathering {
    /// The loop is polled by a worker thread.
    is_needed: bool,
    has_waited: bool,
}

impl Gathering {
    /// For a loop in this runtime.
    pub(super) fn here() -> Self {
        Self { is_needed: host::runtime_has_workers(), has_waited: false }
    }

    /// The loop may have to wait.
    pub(super) fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// True when the loop is to wait for the other tasks before it goes on: not twice in a row.
    pub(super) fn waits(&mut self, has_commands: bool, in_flight: usize) -> bool {
        self.has_waited = self.is_needed && !self.has_waited && has_commands && in_flight >= FEWEST;
        self.has_waited
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::token::Token;

    /// Returns how many replies each portion has, where so many other requests are in flight.
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

    #[test]
    fn a_loop_waits_once_while_the_server_has_work() {
        let mut gathering = Gathering { is_needed: true, has_waited: false };
        assert!(!gathering.waits(false, FEWEST), "nobody has asked");
        assert!(!gathering.waits(true, FEWEST - 1), "the server would idle");
        assert!(gathering.waits(true, FEWEST));
        assert!(!gathering.waits(true, FEWEST), "it has waited");
        assert!(gathering.waits(true, FEWEST));
    }

    #[tokio::test]
    async fn a_thread_that_runs_its_tasks_in_order_needs_none() {
        assert!(!Gathering::here().waits(true, FEWEST));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_worker_thread_does_not_run_its_tasks_in_order() {
        assert!(Gathering::here().waits(true, FEWEST));
    }
}
