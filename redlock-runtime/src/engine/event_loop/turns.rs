//! The engine's turns: a flood of one kind of events delays no other kind.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Waker;

use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::coop::has_budget_remaining;
use tokio::task::{consume_budget, yield_now};

use super::*;
use crate::base::clock::Moment;
use crate::base::token::Token;
use crate::engine::command::{AcquireOutcome, Ask};
use crate::engine::memory::MemoryNode;
use crate::engine::protocol::{ConnectionEvent, Id};
use crate::engine::topology::link::{Link, Node};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(6);

/// A connected event loop, and the senders of its commands and pushes.
fn event_loop(name: &str) -> (EventLoop, UnboundedSender<Command>, UnboundedSender<ConnectionEvent>) {
    let link = Link::new(Node::Memory(MemoryNode::named(name)), SECOND);
    let (commands, arrivals) = unbounded_channel();
    let table = LockTable::new(EngineSettings::for_a_test());
    let mut event_loop = EventLoop::over(Transport::One(link), table, arrivals, None, SECOND);
    assert!(poll(&mut event_loop).is_pending());
    let pushes = match &event_loop.transport {
        Transport::One(link) => link.inbox(),
        Transport::Quorum(_) | Transport::Cluster(_) => None,
    };
    let pushes = pushes.unwrap_or_else(|| unreachable!("memory is connected at once"));
    (event_loop, commands, pushes)
}

fn poll(event_loop: &mut EventLoop) -> Poll<PollOutcome> {
    event_loop.poll(&mut Context::from_waker(Waker::noop()))
}

fn acquire(id: Id) -> (Command, oneshot::Receiver<AcquireOutcome>) {
    let (caller, outcome) = oneshot::channel();
    let now = Moment::now();
    let ask = Box::new(Ask::for_a_test(&format!("lock:{id}"), TTL, now, Some(caller)));
    (Command::Acquire { id, ask, token: Token::from_value("token") }, outcome)
}

#[tokio::test]
async fn a_flood_of_pushes_keeps_no_caller_waiting() {
    let (mut event_loop, commands, pushes) = event_loop("turns-pushes");
    for _ in 0..100_000 {
        let _ = pushes.send(ConnectionEvent::Changed(Some(Vec::new())));
    }
    let (command, mut outcome) = acquire(1);
    let _ = commands.send(command);
    assert!(poll(&mut event_loop).is_ready(), "there is more to do");
    assert!(matches!(outcome.try_recv(), Ok(AcquireOutcome::Held(..))));
}

#[tokio::test]
async fn a_flood_of_commands_ends_no_lease() {
    let (mut event_loop, commands, _pushes) = event_loop("turns-commands");
    let (command, mut outcome) = acquire(1);
    let _ = commands.send(command);
    assert!(poll(&mut event_loop).is_pending());
    let Ok(AcquireOutcome::Held(lease, _)) = outcome.try_recv() else { unreachable!("it is free") };
    let deadline = lease.deadline();
    std::thread::sleep(TTL / 3);
    for id in 2..100_000 {
        let _ = commands.send(Command::Abandon { id });
    }
    // The renewal is due, and does not wait for the last command.
    for _ in 0..5 {
        assert!(poll(&mut event_loop).is_ready(), "there is more to do");
        yield_now().await;
    }
    assert!(lease.deadline() > deadline);
}

/// Sends the requests of so many callers.
fn ask_all(commands: &UnboundedSender<Command>, count: Id) -> Vec<oneshot::Receiver<AcquireOutcome>> {
    let ask = |id| {
        let (command, outcome) = acquire(id);
        let _ = commands.send(command);
        outcome
    };
    (0..count).map(ask).collect()
}

fn is_held(outcome: &mut oneshot::Receiver<AcquireOutcome>) -> bool {
    matches!(outcome.try_recv(), Ok(AcquireOutcome::Held(..)))
}

#[tokio::test]
async fn callers_go_on_while_half_of_a_batch_is_not_handed_out() {
    let (mut event_loop, commands, _pushes) = event_loop("turns-portions");
    let mut outcomes = ask_all(&commands, 40);
    assert!(poll(&mut event_loop).is_ready(), "there is more to do");
    assert_eq!(outcomes.iter().filter(|outcome| !outcome.is_empty()).count(), 20);
    let (command, mut next) = acquire(40);
    let _ = commands.send(command);
    assert!(poll(&mut event_loop).is_pending());
    assert!(outcomes.iter_mut().all(is_held) && is_held(&mut next));
}

#[tokio::test]
async fn replies_are_handed_out_before_the_loop_moves_elsewhere() {
    let (mut event_loop, commands, _pushes) = event_loop("turns-moves");
    let mut outcomes = ask_all(&commands, 40);
    assert!(poll(&mut event_loop).is_ready(), "there is more to do");
    event_loop.leave();
    assert!(outcomes.iter_mut().all(is_held));
}

#[test]
fn what_a_poll_has_no_budget_for_is_read_by_the_next_one() -> std::io::Result<()> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let (mut event_loop, commands, _pushes) = runtime.block_on(async { event_loop("turns-budget") });
    let (command, mut outcome) = acquire(1);
    let _ = commands.send(command);
    // As after a flood of bytes. A caller has its outcome in this poll, and with the end of its
    // `block_on` tokio forgets whom it was to wake.
    let turn = runtime.block_on(poll_fn(|cx| {
        while has_budget_remaining() {
            let _ = pin!(consume_budget()).poll(cx);
        }
        Poll::Ready(event_loop.poll(cx))
    }));
    assert_eq!(turn, Poll::Ready(PollOutcome::Again), "a command is unread");
    let _ = runtime.block_on(poll_fn(|cx| Poll::Ready(event_loop.poll(cx))));
    assert!(is_held(&mut outcome));
    Ok(())
}
