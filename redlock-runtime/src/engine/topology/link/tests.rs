use std::task::Waker;

use super::*;
use crate::base::token::Token;
use crate::engine::protocol::{Action, ServerTime};
use crate::engine::redis::connect::stale_connection::Client;

const LIMIT: Duration = Duration::from_secs(1);

fn renewal() -> Request {
    let renewal = Action::Renew { nth: 0, shortens: false };
    Request::new(renewal, "lock:k".into(), Token::empty(), Duration::from_secs(30))
}

/// Connected at `start`, with a request that was sent after `idle` and has no answer.
fn silent(cx: &mut Context<'_>, start: Moment, idle: Duration) -> Link {
    let mut link = Link::new(Node::Memory(MemoryNode::named("link-silent")), LIMIT);
    assert!(matches!(link.poll(cx, start), Poll::Ready(TransportEvent::Connected { .. })));
    link.send(cx, start.after(idle), vec![(7, renewal())], false);
    in_flight(&mut link).replies = Awaited::FromMemory(Box::pin(std::future::pending()));
    link
}

fn in_flight(link: &mut Link) -> &mut Batch {
    let LinkState::Up(up) = &mut link.state else { unreachable!() };
    let Some(batch) = up.in_flight.front_mut() else { unreachable!() };
    batch
}

#[test]
fn batches_are_answered_in_the_order_in_which_they_were_sent() {
    let mut cx = Context::from_waker(Waker::noop());
    let now = Moment::now();
    let mut link = Link::new(Node::Memory(MemoryNode::named("link-batches")), LIMIT);
    assert!(matches!(link.poll(&mut cx, now), Poll::Ready(TransportEvent::Connected { .. })));
    for id in 0..32 {
        assert!(link.room().is_some());
        link.send(&mut cx, now, vec![(id, renewal())], false);
    }
    assert_eq!(link.room(), None, "so many batches at most");
    let mut answered = Vec::new();
    while let Poll::Ready(event) = link.poll(&mut cx, now) {
        if let TransportEvent::Replies { requests, .. } = event {
            answered.extend(requests.into_iter().map(|(id, _)| id));
        }
    }
    assert_eq!(answered, (0..32).collect::<Vec<_>>());
    assert!(link.room().is_some());
}

/// All waiters of the lock wait for the caller that has it now. A flood of grants, which any client
/// can forge, holds no reply up.
#[test]
fn a_grant_is_told_before_a_reply_and_other_pushes_after_it() {
    const GRANT: PushKind = PushKind::Granted { fence: 1, at: ServerTime(0), marked: false };
    let mut cx = Context::from_waker(Waker::noop());
    let now = Moment::now();
    let mut told = |node, pushes: &[PushKind]| {
        let mut link = Link::new(Node::Memory(MemoryNode::named(node)), LIMIT);
        assert!(matches!(link.poll(&mut cx, now), Poll::Ready(TransportEvent::Connected { .. })));
        let inbox = link.inbox();
        for &kind in pushes {
            let push = Push {
                token: Token::empty(),
                name: "lock:k".into(),
                kind,
                followers: "".into(),
                is_undercut: false,
            };
            assert!(inbox.as_ref().is_some_and(|inbox| inbox.send(ConnectionEvent::Push(push)).is_ok()));
        }
        link.send(&mut cx, now, vec![(1, renewal())], false);
        link.send(&mut cx, now, vec![(2, renewal())], false);
        let mut told = Vec::new();
        while let Poll::Ready(event) = link.poll(&mut cx, now) {
            told.push(match event {
                TransportEvent::Push(push) if push.kind == GRANT => "grant",
                TransportEvent::Push(_) => "push",
                _ => "reply",
            });
        }
        told
    };
    assert_eq!(told("link-grants", &[GRANT, GRANT, GRANT]), ["grant", "reply", "grant", "reply", "grant"]);
    assert_eq!(told("link-pushes", &[PushKind::LeftFree, GRANT]), ["reply", "reply", "push", "grant"]);
}

/// Its requests have no answer then, and the error names a server that always gives such replies.
#[test]
fn a_reply_that_no_script_gives_ends_a_connection_and_not_the_next_one_at_once() {
    let mut cx = Context::from_waker(Waker::noop());
    let start = Moment::now();
    let mut link = Link::new(Node::Memory(MemoryNode::named("link-order")), LIMIT);
    let mut answered = |now| {
        while matches!(link.poll(&mut cx, now), Poll::Ready(TransportEvent::Connected { .. })) {}
        link.send(&mut cx, now, vec![(7, renewal())], false);
        let strange = vec![Reply::Refused(Refusal::OutcomeUnknown("a string".into()))];
        in_flight(&mut link).replies = Awaited::FromMemory(Box::pin(std::future::ready(Ok(strange))));
        match link.poll(&mut cx, now) {
            Poll::Ready(TransportEvent::Broke { unanswered, .. }) => unanswered.len(),
            Poll::Ready(TransportEvent::Replies { .. }) => 0,
            _ => unreachable!(),
        }
    };
    assert_eq!(answered(start), 1);
    assert_eq!(answered(start.after(IN_DOUBT / 2)), 0);
    assert_eq!(answered(start.after(IN_DOUBT)), 1);
    assert_eq!(answered(start.after(IN_DOUBT)), 0);
}

#[test]
fn a_server_that_answers_one_batch_after_the_other_is_not_silent() {
    let mut cx = Context::from_waker(Waker::noop());
    let start = Moment::now();
    let at = |millis| start.after(Duration::from_millis(millis));
    let (inbox, pushes) = unbounded_channel();
    let kind = ConnectionKind::Memory { node: MemoryNode::named("link-silence"), inbox };
    let pushes = Pushes { arrivals: Arrivals::new(pushes), taken: Vec::new() };
    let batch = |replies| Batch { sent: start, requests: Vec::new(), replies: Awaited::FromMemory(replies) };
    let answered = batch(Box::pin(std::future::ready(Ok(Vec::new()))));
    let mut up = Up {
        connection: Connection { kind, pushes },
        in_flight: [answered, batch(Box::pin(std::future::pending()))].into(),
        window: Window::new(Duration::ZERO, start),
        heard: start,
        was_idle: false,
        standby: None,
        grant_was_first: false,
        look_again: None,
        refused: Vec::new(),
        in_doubt_until: None,
    };
    assert!(matches!(up.poll(&mut cx, at(900), LIMIT), Poll::Ready(Ok(TransportEvent::Replies { .. }))));
    // The time for the second batch begins with the answer to the first.
    assert!(up.poll(&mut cx, at(1800), LIMIT).is_pending());
    assert_eq!(up.silent_since(), Some(at(900)));
    assert!(matches!(up.poll(&mut cx, at(1900), LIMIT), Poll::Ready(Err(_))));
}

#[test]
fn the_next_connection_knows_the_one_before_at_any_address() {
    let client = Client::read("id=7 addr=10.0.0.1:5000 laddr=10.0.0.2:6379");
    let node = || RedisNode::for_a_test("redis://127.0.0.1:1/");
    let before = node();
    before.stale_connection().set(client.clone());
    let mut link = Link::new(Node::Redis(Box::new(before)), LIMIT);
    link.replace(Node::Redis(Box::new(node())));
    let Node::Redis(now) = &link.node else { unreachable!() };
    assert!(client.is_some());
    assert_eq!(now.stale_connection().get(), client);
}

#[test]
fn an_idle_connection_whose_answer_is_late_is_replaced_by_one_that_answers() {
    let mut cx = Context::from_waker(Waker::noop());
    let (start, idle) = (Moment::now(), LIMIT);
    let mut link = silent(&mut cx, start, idle);
    let late = start.after(idle).after(LIMIT / 4);
    assert_eq!(link.due(), Some(late));
    assert!(link.poll(&mut cx, start.after(idle)).is_pending());
    let Poll::Ready(TransportEvent::Broke { unanswered, .. }) = link.poll(&mut cx, late) else {
        unreachable!()
    };
    assert_eq!(unanswered.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [7]);
    assert!(matches!(link.poll(&mut cx, late), Poll::Ready(TransportEvent::Connected { .. })));
}

#[test]
fn a_connection_that_was_in_use_has_the_whole_time_limit() {
    let mut cx = Context::from_waker(Waker::noop());
    let (start, idle) = (Moment::now(), LIMIT * 99 / 100);
    let mut link = silent(&mut cx, start, idle);
    let over = start.after(idle).after(LIMIT);
    assert_eq!(link.due(), Some(over));
    assert!(link.poll(&mut cx, start.after(idle).after(LIMIT / 2)).is_pending());
    assert!(matches!(link.poll(&mut cx, over), Poll::Ready(TransportEvent::Broke { .. })));
}

#[test]
fn an_idle_connection_that_answers_in_time_is_kept() {
    let mut cx = Context::from_waker(Waker::noop());
    let (start, idle) = (Moment::now(), LIMIT);
    let mut link = silent(&mut cx, start, idle);
    let LinkState::Up(up) = &mut link.state else { unreachable!() };
    // Another connection is being opened when the answer comes.
    up.standby = Some(Box::pin(std::future::pending()));
    let answer = std::future::ready(Ok(vec![Reply::Done]));
    in_flight(&mut link).replies = Awaited::FromMemory(Box::pin(answer));
    let late = start.after(idle).after(LIMIT / 2);
    assert!(matches!(link.poll(&mut cx, late), Poll::Ready(TransportEvent::Replies { .. })));
    let LinkState::Up(up) = &link.state else { unreachable!() };
    assert!(up.standby.is_none());
    assert!(link.poll(&mut cx, late).is_pending());
}

#[test]
fn a_server_without_pushes_is_silent_however_often_it_is_polled() {
    let mut cx = Context::from_waker(Waker::noop());
    let start = Moment::now();
    let mut link = silent(&mut cx, start, Duration::ZERO);
    let LinkState::Up(up) = &mut link.state else { unreachable!() };
    // As on a connection without RESP3.
    up.connection.pushes.arrivals = Arrivals::new(unbounded_channel().1);
    for part in 0..10 {
        assert!(link.poll(&mut cx, start.after(part * LIMIT / 10)).is_pending());
    }
    assert!(matches!(link.poll(&mut cx, start.after(LIMIT)), Poll::Ready(TransportEvent::Broke { .. })));
}

#[test]
fn no_more_pushes_are_read_than_may_wait() {
    let (events, arrivals) = unbounded_channel();
    let mut pushes = Pushes { arrivals: Arrivals::new(arrivals), taken: Vec::new() };
    let mut cx = Context::from_waker(Waker::noop());
    for waiting in 0..UNREAD {
        assert_eq!(pushes.room(), UNREAD - waiting);
        let _ = events.send(ConnectionEvent::Changed(None));
    }
    for taken in 0..UNREAD {
        assert_eq!(pushes.room(), taken);
        assert!(matches!(pushes.poll(&mut cx), Poll::Ready(Some(ConnectionEvent::Changed(None)))));
    }
    assert_eq!(pushes.room(), UNREAD);
}
