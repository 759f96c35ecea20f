//! What the nodes of a Cluster say: answers for whoever asked, or another way for the request.

use std::task::{Context, Poll};

use super::member::Course;
use super::slot_queue::Parked;
use super::{Cluster, REDIRECTS};
use crate::clock::Moment;
use crate::engine::protocol::{Action, Id, Redirect, Refusal, Reply, Request};
use crate::engine::redis::connection::INBOX_MOVED;
use crate::engine::transport::link::News;
use crate::telemetry;

impl Cluster {
    /// Listens to the members, in turn. True when there was something to hear.
    pub(super) fn listen(&mut self, cx: &mut Context<'_>, now: Moment) -> bool {
        let count = self.members.len();
        for nth in 0..count {
            let node = (self.first + nth) % count;
            if let Some(Some(member)) = self.members.get_mut(node)
                && let Poll::Ready(news) = member.poll(cx, now)
            {
                self.first = node + 1;
                self.heard(now, node, news);
                return true;
            }
        }
        false
    }

    fn heard(&mut self, now: Moment, node: usize, news: News) {
        let Some(Some(member)) = self.members.get_mut(node) else {
            return;
        };
        match news {
            News::Connected { abilities, standing } => {
                (member.up, member.trouble, member.abilities) = (true, None, Some(abilities));
                self.look_at_all_lanes();
                if self.connected {
                    self.returned(node);
                } else {
                    self.connected = true;
                    self.abilities = Some(abilities);
                    self.news.push_back(News::Connected { abilities, standing });
                }
                self.send_pages(now);
            }
            News::Unreachable(trouble) => {
                if member.trouble.as_ref() != Some(&trouble) {
                    telemetry::unreachable(&trouble.reason);
                }
                member.trouble = Some(trouble.clone());
                self.look_at_all_lanes();
                let all = self.members.iter().flatten().all(|member| member.trouble.is_some());
                if !self.connected && all {
                    self.news.push_back(News::Unreachable(trouble));
                }
                self.send_pages(now);
                self.learn_soon(now);
            }
            News::Broke { reason, unanswered } => {
                telemetry::broke(&reason);
                self.unanswered(now, node, unanswered);
                self.look_at_all_lanes();
                if *reason == *INBOX_MOVED {
                    self.move_inbox(now, node);
                }
                self.learn_soon(now);
            }
            News::Replies { sent, replies } => {
                let replies = replies.into_iter().filter_map(|(id, request, reply)| {
                    let course = self.members.get_mut(node)?.as_mut()?.answered()?;
                    self.reply(now, node, course, id, request, reply)
                });
                let replies: Vec<_> = replies.collect();
                if !replies.is_empty() {
                    self.news.push_back(News::Replies { sent, replies });
                }
            }
            News::Notice(_) | News::Changed(_) | News::Returned(_) | News::Abilities(_) => {
                self.news.push_back(news);
            }
        }
    }

    /// What a node said, or `None` when it is not the answer yet.
    fn reply(
        &mut self,
        now: Moment,
        node: usize,
        course: Course,
        id: Id,
        request: Request,
        reply: Reply,
    ) -> Option<(Id, Request, Reply)> {
        let mut flight = match course {
            Course::Slot(flight) => flight,
            Course::Page { node } => return Some((id, request, self.next_page(node, reply))),
        };
        let slot = flight.slot;
        let lane = self.lanes.get_mut(&slot)?;
        lane.back(&mut flight);
        if lane.is_waiting() {
            self.to_look_at.insert(slot);
        }
        // The caller of a release does not wait for this, and it is sent again whatever happens.
        let is_told = matches!(&reply, Reply::Refused(refusal) if refusal.lasts())
            && matches!(request.action, Action::Release | Action::Keep);
        let reply = match reply {
            Reply::Refused(Refusal::Elsewhere(redirect)) => {
                self.redirect(now, node, Parked { flight, id, request }, &redirect);
                return None;
            }
            Reply::Refused(Refusal::Later(reason)) if !is_told && now.since(flight.since) < self.limit => {
                lane.pause(now);
                // A slot that is being moved is where it was.
                let moving = reason.starts_with("TRYAGAIN");
                lane.reason = Some(reason);
                self.park(Parked { flight, id, request });
                if !moving {
                    self.learn_soon(now);
                }
                return None;
            }
            Reply::Refused(Refusal::Later(reason)) if flight.unanswered => {
                Reply::Refused(Refusal::Unanswered(reason))
            }
            // It may have been done before, and what it follows is not sure any more.
            Reply::NotAsked if flight.unanswered => {
                Reply::Refused(Refusal::Unanswered("the connection to a node of the Cluster broke".into()))
            }
            // It was done before, over the connection that broke.
            Reply::NotMine if flight.unanswered && request.action == Action::Release => Reply::Done,
            reply => reply,
        };
        if !matches!(reply, Reply::Refused(_)) {
            lane.served(&flight, &request);
        }
        self.close_lane(slot);
        Some((id, request, reply))
    }

    /// Another node has the slot, or is about to have it.
    fn redirect(&mut self, now: Moment, from: usize, mut parked: Parked, redirect: &Redirect) {
        let slot = parked.flight.slot;
        parked.flight.redirects += 1;
        let lost_its_way = parked.flight.redirects > REDIRECTS;
        let slots = (!redirect.once).then_some((slot, slot));
        let to = self.address(from, &redirect.to).and_then(|address| self.member_at(&address, slots));
        let Some(lane) = self.lanes.get_mut(&slot) else {
            return;
        };
        lane.reason = Some(redirect.words());
        if lost_its_way {
            parked.flight.redirects = 0;
            lane.pause(now);
        }
        match (to, redirect.once) {
            (Some(to), true) => {
                if let Some(Some(member)) = self.members.get_mut(to)
                    && member.up
                    && !lost_its_way
                    && lane.may_redirect()
                {
                    parked.flight.asking = true;
                    lane.sent(to, &parked.flight);
                    member.push(Course::Slot(parked.flight), parked.id, parked.request);
                    return;
                }
                lane.pause(now);
            }
            (Some(to), false) => {
                if self.owners.get(slot).is_some_and(|owner| owner != to) {
                    *self.owners.get_mut(slot) = Some(to);
                    self.has_moved(slot, to);
                    // Others may have moved with it.
                    self.learn_soon(now);
                }
            }
            (None, _) => self.learn_soon(now),
        }
        self.park(parked);
    }

    /// The connection to a member is gone, and these were sent: whatever was on its way waits for the next one.
    pub(super) fn unanswered(&mut self, now: Moment, node: usize, sent: Vec<(Id, Request)>) {
        let Some(Some(member)) = self.members.get_mut(node) else {
            return;
        };
        for (course, id, request) in member.take_all(sent) {
            match course {
                Course::Slot(mut flight) => {
                    if let Some(lane) = self.lanes.get_mut(&flight.slot) {
                        lane.back(&mut flight);
                    }
                    self.park(Parked { flight, id, request });
                }
                Course::Page { .. } => {
                    let refusal = Refusal::Later("the connection to a node of the Cluster broke".into());
                    self.answer(now, id, request, Reply::Refused(refusal));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::redis::discovery::ClusterNodes;
    use crate::engine::redis::node::NodeSettings;
    use crate::engine::slots::Slot;
    use crate::engine::transport::cluster::slot_queue::{Flight, Lane};
    use crate::token::Token;

    const LIMIT: Duration = Duration::from_secs(1);

    /// What comes of a node's answer to a release.
    fn answered(unanswered: bool, reply: Reply) -> Option<Reply> {
        let nodes = ClusterNodes::new([], NodeSettings::for_a_test(), None);
        let mut cluster =
            Cluster::new(nodes.unwrap_or_else(|| unreachable!("each of its seeds is one")), LIMIT);
        let (now, slot) = (Moment::now(), Slot::of("lock:k"));
        let flight = Flight { sequence: 1, slot, since: now, redirects: 0, unanswered, asking: false };
        cluster.lanes.entry(slot).or_insert_with(Lane::new).sent(0, &flight);
        let (action, name, token) = (Action::Release, "lock:k".into(), Token::from_value("token"));
        let request = Request { action, name, token, ttl: LIMIT };
        cluster.reply(now, 0, Course::Slot(flight), 1, request, reply).map(|(_, _, reply)| reply)
    }

    #[test]
    fn a_release_that_was_done_over_the_connection_that_broke_is_done() {
        assert_eq!(answered(true, Reply::NotMine), Some(Reply::Done));
        assert_eq!(answered(false, Reply::NotMine), Some(Reply::NotMine));
    }
}
