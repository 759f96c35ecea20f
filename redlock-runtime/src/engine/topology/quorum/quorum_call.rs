//! One request that was put to all nodes, and the answer of each. No I/O and no clock.
//!
//! A vote carries the fencing token that the client proposes. Where a node has seen a larger one,
//! the votes count, but a second round raises the token on the nodes that voted: the lock is
//! granted when a majority has answered that one, too. The holder that a refusal names is the one
//! that most nodes name.

use std::sync::Arc;

use super::tally::{NodeReply, Outcome, Tally};
use crate::base::clock::Moment;
use crate::base::token::Token;
use crate::engine::protocol::{Action, Id, Inspection, Refusal, Reply, Request};

pub(super) struct QuorumCall {
    /// The attempt that the request is for.
    pub(super) id: Id,
    /// The request as the table sent it.
    pub(super) request: Request,
    /// The action as the nodes are asked.
    pub(super) action: Action,
    /// The time when the nodes were asked.
    pub(super) sent: Moment,
    /// The table has its answer.
    pub(super) is_answered: bool,
    /// The highest clock of fencing tokens that a node told.
    clock: u64,
    /// The holder that a force-release has seen.
    holder: Option<Inspection>,
    answers: Vec<NodeReply>,
}

impl QuorumCall {
    pub(super) fn new(id: Id, request: Request, action: Action, sent: Moment, nodes: usize) -> Self {
        Self {
            id,
            request,
            action,
            sent,
            is_answered: false,
            clock: 0,
            holder: None,
            answers: vec![NodeReply::Awaited; nodes],
        }
    }

    /// The request as the nodes are asked.
    pub(super) fn node_request(&self) -> Request {
        Request { action: self.action, ..self.request.clone() }
    }

    pub(super) fn awaits(&self, node: usize) -> bool {
        matches!(self.answers.get(node), Some(NodeReply::Awaited))
    }

    pub(super) fn awaits_any(&self) -> bool {
        (0..self.answers.len()).any(|node| self.awaits(node))
    }

    pub(super) fn absent(&mut self, node: usize, reason: Arc<str>) {
        self.set(node, NodeReply::Absent(Refusal::Transient(reason)));
    }

    pub(super) fn answer(&mut self, node: usize, reply: Reply) {
        if let Reply::Voted { clock } = reply {
            self.clock = self.clock.max(clock);
        }
        self.set(
            node,
            match reply {
                Reply::Refused(refusal) => NodeReply::Absent(refusal),
                reply => NodeReply::Said(reply),
            },
        );
    }

    fn set(&mut self, node: usize, answer: NodeReply) {
        if let Some(old) = self.answers.get_mut(node) {
            *old = answer;
        }
    }

    /// Begins the second round. Returns the nodes that have voted for the caller: these are asked
    /// to raise their clocks.
    pub(super) fn raise_fence(&mut self, fence: u64) -> Vec<usize> {
        self.action = Action::RaiseFence { fence };
        let mut asked = Vec::new();
        for (node, answer) in self.answers.iter_mut().enumerate() {
            *answer = match answer {
                NodeReply::Said(Reply::Voted { .. }) => {
                    asked.push(node);
                    NodeReply::Awaited
                }
                NodeReply::Absent(refusal) => NodeReply::Absent(refusal.clone()),
                NodeReply::Said(_) | NodeReply::Awaited => {
                    NodeReply::Absent(Refusal::Transient("it did not vote".into()))
                }
            };
        }
        asked
    }

    /// Begins the second round of a force-release: the value of this holder, or, where no quorum of
    /// nodes has the same one, what each node has, is taken away. Returns the nodes to ask, each
    /// with that value.
    pub(super) fn take_away(&mut self, holder: Option<Inspection>) -> Vec<(usize, Token)> {
        self.action = Action::TakeAway;
        let mut asked = Vec::new();
        for (node, answer) in self.answers.iter_mut().enumerate() {
            let value = match (&holder, &*answer) {
                (_, NodeReply::Absent(_)) => continue,
                (Some(holder), _) | (None, NodeReply::Said(Reply::Found(Some(holder)))) => {
                    holder.value.clone()
                }
                (None, NodeReply::Said(_)) => {
                    *answer = NodeReply::Said(Reply::NotHeld);
                    continue;
                }
                (None, NodeReply::Awaited) => {
                    *answer = NodeReply::Absent(Refusal::Transient("it did not tell its holder".into()));
                    continue;
                }
            };
            *answer = NodeReply::Awaited;
            asked.push((node, value));
        }
        self.holder = holder;
        asked
    }

    /// `None` while further answers can change it; never `None` once the call has timed out.
    pub(super) fn outcome(&self, needed: usize, timed_out: bool) -> Option<Outcome> {
        let tally = Tally {
            answers: &self.answers,
            needed,
            awaited: if timed_out { 0 } else { self.count(|answer| matches!(answer, NodeReply::Awaited)) },
        };
        match self.action {
            Action::Vote { fence, .. } => tally.vote(fence, self.clock),
            Action::RaiseFence { fence } => tally.raise_fence(fence),
            Action::Release => tally.release(),
            Action::Watch | Action::WatchHolder => tally.watch(),
            Action::Inspect if self.request.action == Action::ForceRelease => tally.look(),
            Action::Inspect => tally.found(),
            Action::TakeAway => tally.take_away(self.holder.as_ref()),
            Action::List { .. } => tally.first(),
            Action::Ping { .. }
            | Action::Repair { .. }
            | Action::Renew { .. }
            | Action::ExpireLater
            | Action::Acquire(_)
            | Action::AcquireNext { .. }
            // The table sends none of these last sixteen to a quorum, or it asks the nodes otherwise.
            | Action::ForceRelease
            | Action::Reserve { .. }
            | Action::Redeem
            | Action::Draw
            | Action::Downgrade { .. }
            | Action::Announce
            | Action::Leader
            | Action::LastTick
            | Action::ClearTick
            | Action::SetPermits { .. }
            | Action::Permits
            | Action::Record
            | Action::ClearRecord
            | Action::WatchLeader => tally.renew(),
        }
    }

    fn count(&self, is: impl Fn(&NodeReply) -> bool) -> usize {
        self.answers.iter().filter(|answer| is(answer)).count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::error::Holder;
    use crate::base::owner::Owner;
    use crate::base::token::Token;
    use crate::engine::protocol::Verdict;

    const FENCE: u64 = 100;

    /// The outcome of these answers of five nodes; `None` for an answer that is still awaited.
    fn outcome(action: Action, replies: [Option<Reply>; 5]) -> Option<Outcome> {
        outcome_of(action, replies, false)
    }

    fn outcome_of(action: Action, replies: [Option<Reply>; 5], timed_out: bool) -> Option<Outcome> {
        let ttl = Duration::from_secs(1);
        let request = Request::new(action, "k".into(), Token::empty(), ttl);
        let mut call = QuorumCall::new(1, request, action, Moment::now(), 5);
        for (node, reply) in replies.into_iter().enumerate() {
            if let Some(reply) = reply {
                call.answer(node, reply);
            }
        }
        call.outcome(3, timed_out)
    }

    #[expect(clippy::unnecessary_wraps, reason = "tests mix it with `None`")]
    fn voted(clock: u64) -> Option<Reply> {
        Some(Reply::Voted { clock })
    }

    #[expect(clippy::unnecessary_wraps, reason = "tests mix it with `None`")]
    fn busy(name: &str) -> Option<Reply> {
        let holder = Holder { owner: Some(Owner::read(name)), expires_in: None, ..Holder::default() };
        Some(Reply::Acquire(Verdict::Busy { holder, place: None }))
    }

    #[expect(clippy::unnecessary_wraps, reason = "tests mix it with `None`")]
    fn down() -> Option<Reply> {
        Some(Reply::Refused(Refusal::Transient("down".into())))
    }

    const REPAIR: Action = Action::Repair { shortens: false };
    const VOTE: Action = Action::Vote { fence: FENCE, late: false };

    #[test]
    fn the_third_vote_of_five_decides() {
        assert_eq!(outcome(VOTE, [voted(FENCE), voted(FENCE), None, None, None]), None);
        assert_eq!(
            outcome(VOTE, [voted(FENCE), None, voted(FENCE), None, voted(FENCE)]),
            Some(Outcome::Reply(Reply::Acquire(Verdict::Granted { fence: FENCE })))
        );
    }

    #[test]
    fn a_clock_that_was_ahead_takes_a_second_round() {
        assert_eq!(
            outcome(VOTE, [voted(FENCE), voted(FENCE + 7), voted(FENCE), None, None]),
            Some(Outcome::RaiseFence { fence: FENCE + 8 })
        );
    }

    #[test]
    fn the_third_refusal_of_five_decides_and_names_the_holder() {
        assert_eq!(outcome(VOTE, [busy("a"), busy("a"), None, voted(FENCE), None]), None);
        let decided = outcome(VOTE, [busy("a"), busy("b"), busy("b"), voted(FENCE), None]);
        assert!(
            matches!(&decided, Some(Outcome::Reply(Reply::Acquire(Verdict::Busy { holder, .. }))) if holder.name() == Some("b")),
            "{decided:?}"
        );
    }

    #[test]
    fn nodes_that_are_down_are_never_reported_as_busy() {
        let decided = outcome(VOTE, [busy("a"), down(), down(), down(), voted(FENCE)]);
        assert!(
            matches!(decided, Some(Outcome::Reply(Reply::Refused(Refusal::Transient(_))))),
            "{decided:?}"
        );
        let decided = outcome_of(VOTE, [voted(FENCE), voted(FENCE), None, None, None], true);
        assert!(
            matches!(decided, Some(Outcome::Reply(Reply::Refused(Refusal::Transient(_))))),
            "{decided:?}"
        );
        // The two awaited nodes could make a quorum with the busy one, but none for the caller.
        let decided = outcome(VOTE, [busy("a"), down(), down(), None, None]);
        assert!(matches!(decided, Some(Outcome::Reply(Reply::Acquire(Verdict::Busy { .. })))), "{decided:?}");
    }

    #[test]
    fn a_renewal_counts_only_nodes_that_compared() {
        let done = || Some(Reply::Done);
        let (empty, not_mine) = (|| Some(Reply::Free), || Some(Reply::NotHeld));
        assert_eq!(
            outcome(REPAIR, [done(), done(), empty(), empty(), done()]),
            Some(Outcome::Reply(Reply::Done))
        );
        assert_eq!(
            outcome(REPAIR, [done(), done(), empty(), empty(), not_mine()]),
            Some(Outcome::Reply(Reply::Free)),
            "no other caller has a quorum"
        );
        assert_eq!(
            outcome(REPAIR, [done(), not_mine(), not_mine(), empty(), not_mine()]),
            Some(Outcome::Reply(Reply::NotHeld)),
            "another caller may have a quorum"
        );
        assert!(matches!(
            outcome(REPAIR, [done(), done(), empty(), down(), down()]),
            Some(Outcome::Reply(Reply::Refused(Refusal::Transient(_))))
        ));
    }

    #[test]
    fn a_release_that_a_majority_did_not_contradict_was_one() {
        let (done, not_mine) = (|| Some(Reply::Done), || Some(Reply::NotHeld));
        assert_eq!(outcome(Action::Release, [done(), done(), None, None, None]), None);
        assert_eq!(
            outcome_of(Action::Release, [done(), down(), done(), not_mine(), done()], true),
            Some(Outcome::Reply(Reply::Done))
        );
        assert_eq!(
            outcome(Action::Release, [not_mine(), not_mine(), not_mine(), done(), None]),
            Some(Outcome::Reply(Reply::NotHeld))
        );
        assert!(matches!(
            outcome(Action::Release, [down(), down(), down(), down(), down()]),
            Some(Outcome::Reply(Reply::Refused(_)))
        ));
    }

    /// The others may have the lock still, and other callers find it taken.
    #[test]
    fn a_release_that_too_few_nodes_have_done_is_not_known_to_be_one() {
        let (done, not_mine) = (|| Some(Reply::Done), || Some(Reply::NotHeld));
        for replies in [[done(), done(), down(), down(), None], [done(), down(), down(), not_mine(), None]] {
            let decided = outcome_of(Action::Release, replies, true);
            assert!(
                matches!(&decided, Some(Outcome::Reply(Reply::Refused(Refusal::OutcomeUnknown(_))))),
                "{decided:?}"
            );
        }
    }

    #[test]
    fn what_each_node_said_is_told() {
        let full = || Some(Reply::Refused(Refusal::Transient("MISCONF no disk".into())));
        let Some(Outcome::Reply(Reply::Refused(refusal))) =
            outcome_of(VOTE, [voted(FENCE), full(), busy("a"), full(), None], true)
        else {
            unreachable!("too few agree")
        };
        assert_eq!(
            &*refusal.words(),
            "3 of 5 nodes must agree, and did not (1 node: it gave its vote; 2 nodes: MISCONF no disk; \
             1 node: another caller has the lock; 1 node: no answer in time)"
        );
    }

    #[test]
    fn the_second_round_asks_only_nodes_that_voted() {
        let ttl = Duration::from_secs(1);
        let request = Request::new(VOTE, "k".into(), Token::empty(), ttl);
        let mut call = QuorumCall::new(1, request, VOTE, Moment::now(), 5);
        for (node, clock) in [(0, FENCE), (2, FENCE + 3), (4, FENCE)] {
            call.answer(node, Reply::Voted { clock });
        }
        assert_eq!(call.outcome(3, false), Some(Outcome::RaiseFence { fence: FENCE + 4 }));
        assert_eq!(call.raise_fence(FENCE + 4), [0, 2, 4]);
        call.answer(0, Reply::Done);
        // A late vote does not count in the second round.
        call.answer(1, Reply::Voted { clock: FENCE });
        assert_eq!(call.outcome(3, false), None);
        call.answer(2, Reply::Done);
        call.answer(4, Reply::Done);
        assert_eq!(
            call.outcome(3, false),
            Some(Outcome::Reply(Reply::Acquire(Verdict::Granted { fence: FENCE + 4 })))
        );
    }
}
