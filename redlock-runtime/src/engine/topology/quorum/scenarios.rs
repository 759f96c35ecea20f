//! The quorum driven by hand: connections, answers and the time in a chosen order, without a
//! server.

use std::num::NonZeroU64;
use std::time::Duration;

use super::observed::MOST_CHANGES;
use super::*;
use crate::base::capabilities::Abilities;
use crate::base::error::Holder;
use crate::base::token::Token;
use crate::engine::memory::MemoryNode;
use crate::engine::protocol::{Disconnected, Inspection, Mode, ServerInfo};
use crate::engine::topology::link::Node;

const SECOND: Duration = Duration::from_secs(1);
const ACQUIRE: Action = Action::Acquire(Mode::OneTry);
const RENEW: Action = Action::Renew { nth: 0, shortens: false };
/// The id of the only attempt.
const CALLER: Id = 7;

struct Scenario {
    quorum: Quorum,
    now: Moment,
}

impl Scenario {
    /// Three nodes that are not connected; the scenario answers for them.
    fn disconnected() -> Self {
        let link = |_| Link::new(Node::Memory(MemoryNode::named("quorum-scenarios")), SECOND);
        let settings = EngineSettings::for_a_test();
        let now = Moment::now();
        Self { quorum: Quorum::new((0..3).map(link).collect(), Arc::default(), settings, now), now }
    }

    fn connected() -> Self {
        let mut scenario = Self::disconnected();
        for node in 0..3 {
            scenario.connects(node, Duration::MAX);
        }
        scenario
    }

    fn connects(&mut self, node: usize, up_for: Duration) {
        self.connects_from(node, up_for, Duration::ZERO);
    }

    fn connects_from(&mut self, node: usize, up_for: Duration, round_trip: Duration) {
        let abilities = Abilities { hands_over: true, tracks_changes: true, votes: false, may_evict: false };
        let server_info = ServerInfo { clock: 1000, up_for, durable: false, round_trip };
        self.quorum.on_event(self.now, node, TransportEvent::Connected { abilities, server_info });
    }

    fn breaks(&mut self, node: usize) {
        self.quorum.on_event(
            self.now,
            node,
            TransportEvent::Broke { reason: "gone".into(), unanswered: Vec::new(), refused: Vec::new() },
        );
    }

    fn puts(&mut self, action: Action, ttl: Duration) {
        let request = Request::new(action, "lock:k".into(), Token::from_value("mine"), ttl);
        self.quorum.put(self.now, CALLER, request);
    }

    /// The requests that a node is sent.
    fn hears(&mut self, node: usize) -> Vec<(Id, Request)> {
        self.quorum.members[node].outbox.take_all().collect()
    }

    fn answers(&mut self, node: usize, asked: &[(Id, Request)], reply: &Reply) {
        let (requests, replies) = (asked.to_vec(), vec![reply.clone(); asked.len()]);
        self.quorum.on_event(self.now, node, TransportEvent::Replies { sent: self.now, requests, replies });
    }

    fn answer_without_script(&mut self, node: usize, asked: &[(Id, Request)]) {
        self.answers(node, asked, &Reply::Refused(Refusal::NoScript));
    }
}

fn voted(asked: &[(Id, Request)]) -> Reply {
    match asked {
        [(_, Request { action: Action::Vote { fence, .. }, .. })] => Reply::Voted { clock: *fence },
        other => unreachable!("{} other requests", other.len()),
    }
}

fn actions(asked: &[(Id, Request)]) -> Vec<Action> {
    asked.iter().map(|(_, request)| request.action).collect()
}

#[test]
fn a_vote_without_its_script_is_asked_for_again() {
    let mut scenario = Scenario::connected();
    scenario.puts(ACQUIRE, SECOND);
    let asked = scenario.hears(1);
    scenario.answer_without_script(1, &asked);
    assert_eq!(actions(&scenario.hears(1)), actions(&asked));
}

/// It would take a lock that no caller releases, for a whole ttl.
#[test]
fn nothing_is_asked_for_again_behind_its_release() {
    // The other nodes have decided, and the lock was released.
    let mut scenario = Scenario::connected();
    scenario.puts(ACQUIRE, SECOND);
    let slow = scenario.hears(2);
    for node in [0, 1] {
        let asked = scenario.hears(node);
        scenario.answers(node, &asked, &voted(&asked));
    }
    scenario.puts(Action::Release, SECOND);
    scenario.answer_without_script(2, &slow);
    assert_eq!(actions(&scenario.hears(2)), [Action::Release]);
    // The caller has gone before the nodes have decided.
    let mut scenario = Scenario::connected();
    scenario.puts(ACQUIRE, SECOND);
    let slow = scenario.hears(2);
    scenario.puts(Action::Release, SECOND);
    scenario.answer_without_script(2, &slow);
    assert_eq!(actions(&scenario.hears(2)), [Action::Release]);
    assert!(scenario.quorum.voting.is_empty());
    // A renewal is not sent again either.
    let mut scenario = Scenario::connected();
    scenario.puts(RENEW, SECOND);
    let slow = scenario.hears(2);
    scenario.puts(Action::Release, SECOND);
    scenario.answer_without_script(2, &slow);
    assert_eq!(actions(&scenario.hears(2)), [Action::Release]);
}

#[test]
fn a_release_without_its_script_is_always_sent_again() {
    let mut scenario = Scenario::connected();
    scenario.puts(Action::Release, SECOND);
    let slow = scenario.hears(2);
    for node in [0, 1] {
        let asked = scenario.hears(node);
        scenario.answers(node, &asked, &Reply::Done);
    }
    scenario.answer_without_script(2, &slow);
    assert_eq!(actions(&scenario.hears(2)), [Action::Release]);
}

/// The lock would stay on the node for its ttl, although the node is back in a moment.
#[test]
fn the_engine_does_not_end_before_a_node_that_was_cut_off_has_heard_of_a_release() {
    let mut scenario = Scenario::connected();
    scenario.puts(Action::Release, SECOND);
    for node in [0, 1] {
        let asked = scenario.hears(node);
        scenario.answers(node, &asked, &Reply::Done);
    }
    let unanswered = scenario.hears(2);
    scenario.quorum.on_event(
        scenario.now,
        2,
        TransportEvent::Broke { reason: "cut".into(), unanswered, refused: Vec::new() },
    );
    assert!(!scenario.quorum.is_idle());
    scenario.connects(2, Duration::MAX);
    let owed = scenario.hears(2);
    assert_eq!(actions(&owed), [Action::Release]);
    assert!(!scenario.quorum.is_idle());
    scenario.quorum.events.clear();
    scenario.answer_without_script(2, &owed);
    let owed = scenario.hears(2);
    assert!(!scenario.quorum.is_idle());
    scenario.answers(2, &owed, &Reply::Done);
    assert!(scenario.quorum.is_idle());
    // The engine is woken, to end.
    assert!(!scenario.quorum.events.is_empty());
}

#[test]
fn the_engine_does_not_wait_for_a_node_that_cannot_be_reached() {
    let mut scenario = Scenario::connected();
    scenario.breaks(2);
    scenario.puts(Action::Release, SECOND);
    for node in [0, 1] {
        let asked = scenario.hears(node);
        scenario.answers(node, &asked, &Reply::Done);
    }
    assert!(!scenario.quorum.is_idle());
    let trouble = Disconnected { reason: "refused".into(), is_permanent: false };
    scenario.quorum.on_event(scenario.now, 2, TransportEvent::Unreachable(trouble));
    assert!(scenario.quorum.is_idle());
}

#[test]
fn a_restarted_node_waits_for_the_longest_ttl_of_renewals_too() {
    let mut scenario = Scenario::connected();
    scenario.puts(RENEW, 60 * SECOND);
    scenario.breaks(0);
    scenario.connects(0, 10 * SECOND);
    scenario.hears(0);
    scenario.puts(ACQUIRE, SECOND);
    assert_eq!(actions(&scenario.hears(0)), [], "it may have forgotten a lock of a minute");
    assert_eq!(scenario.hears(1).len(), 2);
}

/// A timer that is overdue would keep the engine busy.
#[test]
fn a_quorum_that_is_gone_before_it_begins_leaves_no_timer() {
    let mut scenario = Scenario::disconnected();
    scenario.connects(0, Duration::MAX);
    scenario.connects(1, Duration::MAX);
    scenario.quorum.begin(scenario.now);
    assert!(scenario.quorum.due().is_some_and(|due| due > scenario.now));
    scenario.breaks(1);
    scenario.now = scenario.now.after(SECOND);
    scenario.quorum.begin(scenario.now);
    assert_eq!(scenario.quorum.due(), None);
    assert!(scenario.quorum.events.is_empty());
}

#[test]
fn changes_that_too_few_nodes_tell_of_are_not_kept_for_ever() {
    let mut scenario = Scenario::connected();
    for number in 0..3 * MOST_CHANGES {
        scenario.quorum.changed(0, Some(vec![format!("lock:{number}").into()]));
    }
    assert!(scenario.quorum.changes.len() <= MOST_CHANGES);
    assert!(scenario.quorum.events.iter().all(|event| !matches!(event, TransportEvent::Changed(_))));
}

#[test]
fn a_call_waits_for_a_quorum_that_is_far_away() {
    let time_limit = |round_trips: [Duration; 3], ttl| {
        let mut scenario = Scenario::disconnected();
        for (node, round_trip) in round_trips.into_iter().enumerate() {
            scenario.connects_from(node, Duration::MAX, round_trip);
        }
        scenario.quorum.time_limit(ttl)
    };
    let (near, far) = (Duration::ZERO, SECOND / 4);
    assert_eq!(time_limit([near, near, far], 10 * SECOND), SECOND / 10, "as the settings say");
    assert_eq!(time_limit([far, near, far], 10 * SECOND), SECOND / 2);
    assert_eq!(time_limit([far, far, SECOND], 10 * SECOND), SECOND / 2, "not for the farthest");
    assert_eq!(time_limit([far, far, far], SECOND), SECOND / 4, "never a large part of the lease");
    assert_eq!(time_limit([SECOND; 3], 10 * SECOND), SECOND, "the limit for any answer");
}

/// A quarter of it is shorter than a round trip: no lock can be had, however long its caller waits.
#[test]
fn a_ttl_that_is_too_short_for_the_nodes_is_named() {
    for (ttl, is_named) in [(SECOND / 10, true), (10 * SECOND, false)] {
        let mut scenario = Scenario::disconnected();
        for node in 0..3 {
            scenario.connects_from(node, Duration::MAX, SECOND / 20);
        }
        scenario.puts(ACQUIRE, ttl);
        scenario.quorum.end_overdue(scenario.now.after(SECOND));
        let told = scenario.take_told();
        let Some(Reply::Refused(Refusal::Transient(reason))) = &told else {
            unreachable!("{told:?}");
        };
        assert_eq!(reason.contains("a quarter of the ttl"), is_named, "{reason}");
    }
}

/// Returns the reply of a node with this value.
fn found(value: Option<&[u8]>) -> Reply {
    Reply::Found(value.map(|value| Inspection {
        holder: Holder::default(),
        value: Token::naming(value),
        waiters: 0,
        queue: Vec::new(),
        record: None,
        counted: None,
    }))
}

impl Scenario {
    /// A force-release, and what the nodes tell first; `None` for one that is silent.
    fn force_releases(&mut self, nodes: [Option<Reply>; 3]) {
        self.puts(Action::ForceRelease, Duration::ZERO);
        let asked = [0, 1, 2].map(|node| self.hears(node));
        for (node, (asked, reply)) in asked.iter().zip(nodes).enumerate() {
            assert_eq!(actions(asked), [Action::Inspect]);
            if let Some(reply) = reply {
                self.answers(node, asked, &reply);
            }
        }
    }

    /// Returns what each node is asked to take away.
    fn takes_away(&mut self) -> [Option<Token>; 3] {
        [0, 1, 2].map(|node| {
            let asked = self.hears(node);
            let taken = asked.first().map(|(_, request)| {
                assert_eq!(request.action, Action::TakeAway);
                request.token.clone()
            });
            self.answers(node, &asked, &Reply::Done);
            taken
        })
    }

    /// Takes the reply that the caller gets.
    fn take_told(&mut self) -> Option<Reply> {
        match self.quorum.events.pop_front()? {
            TransportEvent::Replies { mut replies, .. } => replies.pop(),
            _ => None,
        }
    }
}

#[test]
fn a_holder_is_shown_with_the_time_of_its_grant_although_a_node_was_repaired() {
    for granted in [[None, Some(7), Some(8)], [Some(8), Some(7), None], [Some(7), None, None]] {
        let mut scenario = Scenario::connected();
        scenario.puts(Action::Inspect, Duration::ZERO);
        for (node, granted) in granted.into_iter().enumerate() {
            let asked = scenario.hears(node);
            let Reply::Found(Some(mut seen)) = found(Some(b"holder")) else { unreachable!("it is held") };
            seen.holder.granted = granted.and_then(NonZeroU64::new);
            scenario.answers(node, &asked, &Reply::Found(Some(seen)));
        }
        let Some(Reply::Found(Some(seen))) = scenario.take_told() else { unreachable!("it is held") };
        assert_eq!(seen.holder.granted.map(NonZeroU64::get), granted.into_iter().max().flatten());
    }
}

/// A request that arrives late would take the vote of a later holder.
#[test]
fn a_force_release_names_the_holder_that_a_quorum_has() {
    let (holder, other) = (Some(&b"holder"[..]), Some(&b"\xff\0"[..]));
    let value = |value: Option<&[u8]>| value.map(Token::naming);
    let mut scenario = Scenario::connected();
    scenario.quorum.events.clear();
    scenario.force_releases([Some(found(holder)), Some(found(other)), Some(found(holder))]);
    assert_eq!(scenario.takes_away(), [value(holder), value(holder), value(holder)]);
    assert_eq!(scenario.take_told(), Some(found(holder)));
    assert!(scenario.quorum.is_idle());
    // The silent node may have it, too.
    scenario.force_releases([Some(found(holder)), Some(found(holder)), None]);
    assert_eq!(scenario.takes_away(), [value(holder), value(holder), value(holder)]);
    assert_eq!(scenario.take_told(), Some(found(holder)));
}

#[test]
fn a_force_release_leaves_votes_for_a_free_lock_alone() {
    let mut scenario = Scenario::connected();
    scenario.quorum.events.clear();
    scenario.force_releases([Some(found(None)), Some(found(None)), Some(found(Some(b"vote")))]);
    assert_eq!(scenario.take_told(), Some(found(None)));
    assert_eq!(scenario.takes_away(), [None, None, None]);
}

#[test]
fn a_force_release_takes_from_each_node_what_it_has_where_no_quorum_agrees() {
    let (one, other) = (Some(&b"one"[..]), Some(&b"other"[..]));
    let value = |value: Option<&[u8]>| value.map(Token::naming);
    let mut scenario = Scenario::connected();
    scenario.quorum.events.clear();
    scenario.force_releases([Some(found(one)), Some(found(None)), Some(found(other))]);
    assert_eq!(scenario.takes_away(), [value(one), None, value(other)]);
    assert_eq!(scenario.take_told(), Some(found(None)));
    // One node is down, and the two others differ.
    scenario.breaks(0);
    scenario.quorum.events.clear();
    scenario.puts(Action::ForceRelease, Duration::ZERO);
    for (node, has) in [(1, one), (2, None)] {
        let asked = scenario.hears(node);
        scenario.answers(node, &asked, &found(has));
    }
    assert_eq!(scenario.takes_away(), [None, value(one), None]);
    assert_eq!(scenario.take_told(), Some(found(None)));
}

#[test]
fn a_force_release_that_too_few_nodes_answer_fails() {
    let holder = Some(&b"holder"[..]);
    let mut scenario = Scenario::connected();
    scenario.quorum.events.clear();
    scenario.force_releases([Some(found(holder)), Some(found(holder)), None]);
    for node in [0, 1] {
        scenario.breaks(node);
    }
    assert!(matches!(scenario.take_told(), Some(Reply::Refused(Refusal::Transient(_)))));
}
