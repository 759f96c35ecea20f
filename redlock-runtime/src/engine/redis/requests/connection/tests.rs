#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{consume_budget, yield_now};

use super::*;
use crate::base::limit::Limit;
use crate::base::token::Token;
use crate::engine::protocol::{ConnectionEvent, Kind, Listed, Mode};
use crate::engine::redis::wire::exchange::PushReader;
use crate::engine::redis::wire::stream::Stream;

const RENEW: Action = Action::Renew { nth: 0, shortens: false };

/// A connection, that server's end, and what is pushed.
async fn connection() -> (RedisConnection, TcpStream, UnboundedReceiver<ConnectionEvent>) {
    connection_of(Session::for_a_test()).await
}

async fn connection_of(session: Session) -> (RedisConnection, TcpStream, UnboundedReceiver<ConnectionEvent>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let (inbox, pushed) = unbounded_channel();
    let stream = Stream::Simulated(Box::new(stream));
    let exchange = Exchange::over(stream, "server:1".into()).with(PushReader {
        events: inbox,
        keyspace: session.keyspace.clone(),
        seen: session.seen.clone(),
    });
    (RedisConnection::new(exchange, session), server, pushed)
}

fn request(action: Action, name: &str) -> Vec<(Id, Request)> {
    let token = Token::from_value("token");
    vec![(1, Request::new(action, name.into(), token, Duration::from_secs(30)))]
}

/// Sends a batch, as the engine does.
async fn send(connection: &mut RedisConnection, requests: &[(Id, Request)]) -> ExpectedBatch {
    poll_fn(|cx| Poll::Ready(connection.submit(cx, Moment::now(), requests, false, usize::MAX))).await
}

/// Drives the connection until the batch has its replies. Some have 100 MB, for which a busy machine
/// needs long.
async fn replies(
    connection: &mut RedisConnection,
    batch: &ExpectedBatch,
) -> Result<Vec<Reply>, Disconnected> {
    let awaited = poll_fn(|cx| {
        connection.drive(cx, usize::MAX);
        connection.poll_replies(batch)
    });
    tokio::time::timeout(Duration::from_secs(60), awaited).await.unwrap()
}

/// Writes all of it, as the server.
async fn answer(server: &TcpStream, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        server.writable().await.unwrap();
        if let Ok(count) = server.try_write(rest) {
            rest = &rest[count..];
        }
    }
}

/// Reads what the server receives, up to `last`.
async fn read_to(server: &TcpStream, last: &str) -> String {
    let mut read = Vec::new();
    let has_come = |read: &[u8]| String::from_utf8_lossy(read).contains(last);
    loop {
        let mut buffer = [0; 4096];
        match server.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => read.extend_from_slice(&buffer[..count]),
            // What is behind it in the same command has come with it.
            Err(_) if has_come(&read) => break,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                server.readable().await.unwrap();
            }
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

#[tokio::test]
async fn batches_keep_their_order_even_when_their_task_has_used_its_budget() {
    let (mut connection, server, _pushed) = connection().await;
    // After some 128 pushes and replies in one poll, tokio answers "pending" to everything.
    let mut spend = pin!(async {
        loop {
            consume_budget().await;
        }
    });
    let acquire = request(Action::Acquire(Mode::OneTry), "lock:acquired");
    poll_fn(|cx| {
        assert!(spend.as_mut().poll(cx).is_pending());
        connection.submit(cx, Moment::now(), &acquire, false, usize::MAX);
        Poll::Ready(())
    })
    .await;
    yield_now().await;
    send(&mut connection, &request(Action::Release, "lock:released")).await;
    let read = read_to(&server, "lock:released").await;
    assert!(read.contains("lock:acquired"), "the release has overtaken the acquire: {read}");
}

#[tokio::test]
async fn a_batch_that_the_stream_does_not_take_at_once_is_written_while_the_connection_is_driven() {
    let (mut connection, server, _pushed) = connection().await;
    let name = format!("lock:{}", "x".repeat(1000));
    let many: Vec<_> = (0..10_000).flat_map(|_| request(Action::Release, &name)).collect();
    let batch = send(&mut connection, &many).await;
    let last = send(&mut connection, &request(Action::Release, "lock:last")).await;
    let serve = async {
        read_to(&server, "lock:last").await;
        answer(&server, &b":1\r\n".repeat(10_001)).await;
    };
    let (all, ()) = tokio::join!(replies(&mut connection, &batch), serve);
    assert_eq!(all.unwrap(), vec![Reply::Done; 10_000]);
    assert_eq!(replies(&mut connection, &last).await.unwrap(), [Reply::Done]);
}

#[tokio::test]
async fn replies_come_in_any_pieces_and_pushes_between_them_take_none_of_their_places() {
    let (mut connection, server, mut pushed) = connection().await;
    let requests = [request(RENEW, "lock:a"), request(Action::Inspect, "lock:b"), request(RENEW, "lock:c")];
    let batch = send(&mut connection, &requests.concat()).await;
    let bytes = b":1\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nlock:d\r\n*4\r\n$-1\r\n:0\r\n:0\r\n*0\r\n\
        >3\r\n$12\r\nsunsubscribe\r\n$12\r\nlock:%inbox:\r\n:0\r\n:0\r\n";
    let serve = async {
        for byte in bytes {
            answer(&server, &[*byte]).await;
            yield_now().await;
        }
    };
    let (all, ()) = tokio::join!(replies(&mut connection, &batch), serve);
    assert_eq!(all.unwrap(), [Reply::Done, Reply::Found(None), Reply::NotHeld]);
    let pushed = [pushed.try_recv().unwrap(), pushed.try_recv().unwrap()];
    let [ConnectionEvent::Changed(Some(changed)), ConnectionEvent::InboxMoved] = pushed else {
        unreachable!()
    };
    assert_eq!(changed.iter().map(|name| &**name).collect::<Vec<_>>(), ["lock:d"]);
}

#[tokio::test]
async fn values_of_any_size_are_read_one_behind_the_other() {
    let (mut connection, server, _pushed) = connection().await;
    for size in [1, 700, 8_180, 8_192, 100_000, 3_000_000, 10] {
        let names: Vec<_> = (0..30).map(|nth| format!("{nth}{}", "x".repeat(size))).collect();
        let requests =
            names.iter().flat_map(|_| request(Action::List { cursor: 0, what: Listed::Locks }, "lock:*"));
        let batch = send(&mut connection, &requests.collect::<Vec<_>>()).await;
        let page = |name: &String| format!("*2\r\n$1\r\n0\r\n*1\r\n${}\r\n{name}\r\n", name.len());
        let pages: String = names.iter().map(page).collect();
        let (read, ()) = tokio::join!(replies(&mut connection, &batch), answer(&server, pages.as_bytes()));
        let expected = names.into_iter().map(|name| Reply::Page { cursor: 0, names: vec![name] });
        assert!(read.unwrap().into_iter().eq(expected), "{size}");
    }
}

#[tokio::test]
async fn the_end_of_the_connection_fails_what_has_no_reply_and_is_told_once() {
    for nonsense in ["", "HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let (mut connection, server, mut pushed) = connection().await;
        let answered = send(&mut connection, &request(RENEW, "lock:a")).await;
        let unanswered = send(&mut connection, &request(RENEW, "lock:b")).await;
        answer(&server, format!(":1\r\n{nonsense}").as_bytes()).await;
        drop(server);
        assert_eq!(replies(&mut connection, &answered).await.unwrap(), [Reply::Done]);
        for _ in 0..3 {
            assert!(replies(&mut connection, &unanswered).await.is_err());
        }
        assert!(matches!(pushed.try_recv(), Ok(ConnectionEvent::Closed(_))));
        assert!(pushed.try_recv().is_err());
    }
}

/// Drives the connection once.
async fn drive(connection: &mut RedisConnection, room: usize) {
    poll_fn(|cx| {
        connection.drive(cx, room);
        Poll::Ready(())
    })
    .await;
}

/// Drives the connection until it has ended, and returns why.
async fn ended(connection: &mut RedisConnection, pushed: &mut UnboundedReceiver<ConnectionEvent>) -> String {
    let ended = poll_fn(|cx| {
        connection.drive(cx, usize::MAX);
        pushed.poll_recv(cx)
    });
    match tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap() {
        Some(ConnectionEvent::Closed(reason)) => reason.to_string(),
        _ => unreachable!("it has not ended"),
    }
}

const UNASKED: &str = "the connection to Redis broke: a reply came that no command had asked for";

#[tokio::test]
async fn a_reply_that_no_command_has_asked_for_answers_no_later_one() {
    for unasked in ["+OK\r\n", "$-1\r\n", ":1\r\n", "*0\r\n", ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"] {
        let (mut connection, server, mut pushed) = connection().await;
        answer(&server, unasked.as_bytes()).await;
        assert_eq!(ended(&mut connection, &mut pushed).await, UNASKED, "{unasked:?}");
        let batch = send(&mut connection, &request(RENEW, "lock:a")).await;
        answer(&server, b":1\r\n").await;
        assert!(replies(&mut connection, &batch).await.is_err());
    }
}

#[tokio::test]
async fn a_reply_too_many_makes_those_that_were_not_taken_worthless() {
    let (mut connection, server, mut pushed) = connection().await;
    let batch = send(&mut connection, &request(RENEW, "lock:a")).await;
    // Which of the two is one too many cannot be known.
    answer(&server, b":1\r\n:0\r\n").await;
    assert_eq!(ended(&mut connection, &mut pushed).await, UNASKED);
    let reason = replies(&mut connection, &batch).await.unwrap_err().reason;
    assert_eq!(&*reason, UNASKED);
}

#[tokio::test]
async fn an_error_that_no_command_has_asked_for_is_told_and_shows_no_secret() {
    let (mut connection, server, mut pushed) = connection().await;
    answer(&server, b"-ERR idle for too long, with args beginning with: 'abc' \r\n").await;
    drop(server);
    let reason = ended(&mut connection, &mut pushed).await;
    let said = "an error came that no command had asked for: ERR idle for too long";
    assert_eq!(reason, format!("the connection to Redis broke: {said}"));
}

#[tokio::test]
async fn a_fencing_token_that_the_server_cannot_have_drawn_is_doubted() {
    let (mut connection, _server, _pushed) = connection().await;
    let (now, time) = (Moment::now(), 1_795_667_147_287_141);
    let granted = |fence| vec![Reply::Acquire(Verdict::Granted { fence })];
    let doubts = |connection: &mut RedisConnection, reply: &[Reply], fenced| {
        let mut requests = request(Action::Acquire(Mode::OneTry), "lock:a");
        requests[0].1.fenced = fenced;
        let mut replies = reply.to_vec();
        connection.doubt(now, &ExpectedBatch::several(Vec::new()), &requests, &mut replies);
        replies != *reply
    };
    // A server whose clock is wrong has drawn it, for all that is known.
    assert!(!doubts(&mut connection, &granted(1), true) && doubts(&mut connection, &granted(0), true));
    connection.answered(now, now, &request(Action::Acquire(Mode::OneTry), "lock:a"), &mut granted(time));
    assert!(
        !doubts(&mut connection, &granted(time + 1), true) && !doubts(&mut connection, &granted(0), false)
    );
    for small in [0, 1, 30_000] {
        assert!(doubts(&mut connection, &granted(small), true), "{small}");
        assert!(
            doubts(&mut connection, &[Reply::Acquire(Verdict::Claimed { fence: small })], true),
            "{small}"
        );
    }
    assert!(
        doubts(&mut connection, &granted(1), false)
            && doubts(&mut connection, &[Reply::Reserved { last: 1 }], true)
    );
}

#[tokio::test]
async fn a_number_that_is_not_above_each_that_was_known_before_its_request_is_none() {
    let (mut connection, _server, _pushed) = connection().await;
    let (now, time) = (Moment::now(), 1_795_667_147_287_141);
    let no_fence = Reply::Refused(Refusal::NoFence);
    let acquire = |fence| Reply::Acquire(Verdict::Granted { fence });
    let of_tick = |fence| {
        let verdict = Box::new(Verdict::Claimed { fence });
        Reply::Acquire(Verdict::OfTick { at_ms: 1, verdict })
    };
    let reserved = |last| Reply::Reserved { last };
    let mut compared = |action, seen, limit, reply: &Reply| {
        let mut requests = request(action, "lock:a");
        requests[0].1.kind = Kind::of_limit(limit);
        let mut expected = ExpectedBatch::several(Vec::new());
        expected.seen = Seen::OfAll(seen);
        let mut replies = vec![reply.clone()];
        connection.doubt(now, &expected, &requests, &mut replies);
        (replies[0] != *reply).then(|| replies.remove(0))
    };
    let take = Action::Acquire(Mode::OneTry);
    for (action, right, wrong, instead) in [
        (take, acquire(time + 1), acquire(time), &no_fence),
        (take, acquire(time + 1), acquire(time - 3_000_000), &no_fence),
        (take, of_tick(time + 1), of_tick(time), &no_fence),
        (Action::Redeem, acquire(time + 1), acquire(time), &no_fence),
        (Action::Draw, reserved(time + 1), reserved(time), &no_fence),
        // The first of them counts.
        (Action::Reserve { count: 32 }, reserved(time + 32), reserved(time + 31), &Reply::NotHeld),
    ] {
        assert_eq!(compared(action, time, Limit::ONE, &right), None, "{action:?}");
        assert_eq!(compared(action, time, Limit::ONE, &wrong).as_ref(), Some(instead), "{action:?}");
        // What is learned while the request is under way may have been drawn after it.
        assert_eq!(compared(action, time - 60_000_000, Limit::ONE, &wrong), None, "{action:?}");
    }
    // The phase may have begun long ago.
    assert_eq!(compared(take, time, Limit::NONE, &acquire(time - 1)), None);
}

#[tokio::test]
async fn a_granted_lock_is_compared_as_its_push_arrives() {
    let mut session = Session::for_a_test();
    session.server_info.clock = TIME;
    let (mut connection, server, mut pushed) = connection_of(session).await;
    let mut granted = async |connection: &mut RedisConnection, fence: u64, at: u64| {
        let payload = format!("granted|token|{fence}|{at}|!|lock:k");
        let push =
            format!(">3\r\n$7\r\nmessage\r\n$13\r\nlock:%inbox:1\r\n${}\r\n{payload}\r\n", payload.len());
        answer(&server, push.as_bytes()).await;
        let arrived = poll_fn(|cx| {
            connection.drive(cx, usize::MAX);
            pushed.poll_recv(cx)
        });
        match tokio::time::timeout(Duration::from_secs(10), arrived).await.unwrap() {
            Some(ConnectionEvent::Push(push)) => push.is_undercut,
            _ => unreachable!("another event"),
        }
    };
    assert!(!granted(&mut connection, TIME + 1, TIME).await);
    assert!(granted(&mut connection, TIME + 1, TIME).await, "it was given twice");
    assert!(granted(&mut connection, TIME, TIME).await, "it goes back");
    assert!(granted(&mut connection, TIME + 2, TIME + 3_000_000).await, "it is of older data");
    assert!(!granted(&mut connection, TIME + 2, TIME + 30_000).await, "the clock is raised now and then");
    assert!(!granted(&mut connection, 0, TIME + 3_000_000).await, "its waiter draws none");
    // The next script raises the clock to the server's time.
    send(&mut connection, &direct("lock:next")).await;
    let sent = read_to(&server, "\r\n9007199254740992\r\n").await;
    assert!(sent.contains("lock:next%queue"), "{sent}");
}

const TIME: u64 = 1_795_667_147_287_141;

/// A number that was drawn long after the last comparison with the floor, however slow the test is.
const DRAWN: u64 = TIME + 3_600_000_000;

/// A connection whose last comparison with the floor is to come, so that none is due in a slow test.
async fn compared() -> (RedisConnection, TcpStream) {
    let mut session = Session::for_a_test();
    session.server_info.clock = TIME;
    let (mut connection, server, _pushed) = connection_of(session).await;
    let batch = send(&mut connection, &direct("lock:compared")).await;
    let floor = (TIME - 20_000) / 100_000;
    let sent = read_to(&server, "GETRANGE\r\n$13\r\nlock:compared\r\n$1\r\n0\r\n$3\r\n512\r\n").await;
    assert!(sent.contains(&format!("\r\n{floor}")), "{sent}");
    let mut granted = vec![Reply::Acquire(Verdict::Granted { fence: TIME + 1_000_000 })];
    let now = Moment::now();
    connection.answered(now.after(Duration::from_hours(1)), now, &direct("lock:compared"), &mut granted);
    answer(&server, b"+OK\r\n:1\r\n$5\r\ntoken\r\n").await;
    let expected = [Reply::Acquire(Verdict::Granted { fence: 1 })];
    assert_eq!(
        replies(&mut connection, &batch).await.unwrap(),
        expected,
        "no number is below that of a script"
    );
    (connection, server)
}

#[tokio::test]
async fn the_fencing_token_of_a_phase_that_goes_on_does_not_lower_the_floor() {
    let mut session = Session::for_a_test();
    session.server_info.clock = TIME;
    let (mut connection, server, _pushed) = connection_of(session).await;
    let mut reader = request(Action::Acquire(Mode::OneTry), "lock:phase");
    reader[0].1.kind = Kind::of_limit(Limit::NONE);
    let mut entered = vec![Reply::Acquire(Verdict::Granted { fence: TIME - 60_000_000 })];
    // So long ago that the next one carries the floor in any case.
    let sent = Moment::now().before(Duration::from_millis(10));
    connection.answered(sent, Moment::now(), &reader, &mut entered);
    send(&mut connection, &direct("lock:next")).await;
    let floor = (TIME - 20_000) / 100_000;
    let sent = read_to(&server, "GETRANGE\r\n$9\r\nlock:next\r\n$1\r\n0\r\n$3\r\n512\r\n").await;
    assert!(sent.contains(&format!("\r\n{floor}")), "{sent}");
}

fn direct(name: &str) -> Vec<(Id, Request)> {
    let mut requests = request(Action::Acquire(Mode::OneTry), name);
    requests[0].1.use_commands();
    requests
}

#[tokio::test]
async fn a_fencing_token_is_drawn_without_a_script_between_two_comparisons_with_the_floor() {
    let (mut connection, server) = compared().await;
    let fence = DRAWN;
    for (said, expected) in [
        (format!("+OK\r\n:{fence}\r\n$5\r\ntoken\r\n"), Reply::Acquire(Verdict::Granted { fence })),
        // A waiter has marked it.
        (format!("+OK\r\n:{fence}\r\n$6\r\ntoken!\r\n"), Reply::Acquire(Verdict::Granted { fence })),
        // Another caller has it, and this number is drawn for nothing.
        (format!("$-1\r\n:{fence}\r\n$5\r\nother\r\n"), Reply::Refused(Refusal::Contended)),
        (format!("$-1\r\n:{fence}\r\n$-1\r\n"), Reply::Refused(Refusal::Contended)),
        // It was taken away between the commands.
        (format!("+OK\r\n:{fence}\r\n$5\r\nother\r\n"), Reply::Refused(Refusal::NoFence)),
        (format!("+OK\r\n:{fence}\r\n$-1\r\n"), Reply::Refused(Refusal::NoFence)),
        ("+OK\r\n-OOM command not allowed\r\n$5\r\ntoken\r\n".to_owned(), Reply::Refused(Refusal::NoFence)),
        ("+OK\r\n:1\r\n$5\r\ntoken\r\n".to_owned(), Reply::Refused(Refusal::NoFence)),
        (format!("+OK\r\n:{}\r\n$5\r\ntoken\r\n", TIME + 900_000), Reply::Refused(Refusal::NoFence)),
        (
            format!("-OOM command not allowed\r\n:{fence}\r\n$-1\r\n"),
            Reply::Refused(Refusal::Permanent("OOM command not allowed".into())),
        ),
    ] {
        let batch = send(&mut connection, &direct("lock:a")).await;
        let sent = read_to(&server, "GETRANGE\r\n$6\r\nlock:a\r\n$1\r\n0\r\n$3\r\n512\r\n").await;
        assert!(
            sent.contains("SET\r\n$6\r\nlock:a") && sent.contains("INCR\r\n$11\r\nlock:%clock"),
            "{sent}"
        );
        answer(&server, said.as_bytes()).await;
        assert_eq!(replies(&mut connection, &batch).await.unwrap(), [expected], "{said:?}");
    }
}

#[tokio::test]
async fn three_replies_that_are_not_those_of_three_commands_grant_no_lock() {
    let fence = DRAWN;
    let own = [":1\r\n", "+OK\r\n", "$-1\r\n", "*0\r\n", "_\r\n", "-ERR other\r\n", "$5\r\nother\r\n"];
    let whole = ["+OK\r\n".to_owned(), format!(":{fence}\r\n"), "$5\r\ntoken\r\n".to_owned()];
    for at in 0..whole.len() {
        for stray in own {
            let (mut connection, server) = compared().await;
            let batch = send(&mut connection, &direct("lock:a")).await;
            let mut said = whole.to_vec();
            // It stands in front of one, and the last one is the answer to another command.
            said.insert(at, stray.to_owned());
            answer(&server, said[..whole.len()].concat().as_bytes()).await;
            let all = replies(&mut connection, &batch).await.unwrap();
            assert!(
                matches!(
                    all[..],
                    [Reply::Refused(
                        Refusal::OutcomeUnknown(_)
                            | Refusal::NoFence
                            | Refusal::Contended
                            | Refusal::Permanent(_)
                    )]
                ),
                "{said:?}: {all:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_first_of_a_batch_carries_the_floor_for_those_behind_it() {
    let (mut connection, server) = compared().await;
    connection.fences.on_below();
    let batch = [direct("lock:a"), direct("lock:b"), direct("lock:c")].concat();
    send(&mut connection, &batch).await;
    let sent = read_to(&server, "GETRANGE\r\n$6\r\nlock:c\r\n$1\r\n0\r\n$3\r\n512\r\n").await;
    let count = |what: &str| sent.matches(what).count();
    assert_eq!((count("\r\nEVALSHA\r\n"), count("%queue\r\n"), count("\r\nINCR\r\n")), (1, 0, 2), "{sent}");
}

#[tokio::test]
async fn pushes_that_nobody_takes_wait_on_the_way_and_the_rest_comes_in_its_order() {
    let (mut connection, server, mut pushed) = connection().await;
    let push = |name: usize| format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n$8\r\nlock:{name:03}\r\n");
    let all: String = (0..900).map(push).collect();
    answer(&server, all.as_bytes()).await;
    let mut names = Vec::new();
    for round in 1..=90 {
        let read = poll_fn(|cx| {
            let room = 10_usize.saturating_sub(pushed.len());
            connection.drive(cx, room);
            if pushed.len() == 10 { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::time::timeout(Duration::from_secs(10), read).await.unwrap();
        drive(&mut connection, 0).await;
        assert_eq!(pushed.len(), 10, "in round {round}");
        while let Ok(ConnectionEvent::Changed(Some(changed))) = pushed.try_recv() {
            names.extend(changed);
        }
    }
    assert!(names.iter().map(|name| &**name).eq((0..900).map(|name| format!("lock:{name:03}"))));
}

#[tokio::test]
async fn large_pushes_wait_on_the_way_until_the_engine_has_taken_those_before_them() {
    let (mut connection, server, mut pushed) = connection().await;
    let name = format!("lock:{}", "x".repeat(40_000));
    let push = format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{name}\r\n", name.len());
    let serve = async {
        answer(&server, push.repeat(500).as_bytes()).await;
    };
    let take = async {
        let (mut taken, mut most) = (0, 0);
        while taken < 500 {
            drive(&mut connection, UNREAD - pushed.len()).await;
            yield_now().await;
            most = most.max(pushed.len());
            // The engine takes all of them, but not at once.
            if pushed.len() > 90 || taken + pushed.len() == 500 {
                while pushed.try_recv().is_ok() {
                    taken += 1;
                }
            }
        }
        most
    };
    let (most, ()) =
        tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(take, serve) }).await.unwrap();
    assert!((90..=110).contains(&most), "{most} of 40 KB wait at most");
}

#[tokio::test]
async fn replies_that_the_engine_has_not_taken_have_a_bound_together() {
    let (mut connection, server, mut pushed) = connection().await;
    let requests: Vec<_> = (0..200).flat_map(|_| request(Action::Inspect, "lock:a")).collect();
    // Each is far below the bound of one reply, and the batch is not whole before the last one.
    let reply = format!("*100000\r\n{}", ":1\r\n".repeat(100_000));
    let batch = send(&mut connection, &requests).await;
    let mut answered = 0;
    let serve = async {
        while answered < 200 {
            answer(&server, reply.as_bytes()).await;
            answered += 1;
            yield_now().await;
        }
    };
    let broke = async { replies(&mut connection, &batch).await.unwrap_err().reason };
    let reason = tokio::select! { reason = broke => reason, () = serve => unreachable!("it reads all") };
    // Some more are on the way.
    assert!((30..100).contains(&answered), "{answered} replies of 3.2 MB");
    let expected = "the connection to Redis at server:1 broke: it sent replies of more than 96 MiB together, and no lock needs that";
    assert_eq!(&*reason, expected);
    assert!(matches!(pushed.try_recv(), Ok(ConnectionEvent::Closed(reason)) if *reason == *expected));
}

#[tokio::test]
async fn replies_that_were_taken_count_no_more() {
    let (mut connection, server, _pushed) = connection().await;
    let reply = format!("*100000\r\n{}", ":1\r\n".repeat(100_000));
    for _ in 0..40 {
        let batch = send(&mut connection, &request(Action::Inspect, "lock:a")).await;
        let (answered, ()) =
            tokio::join!(replies(&mut connection, &batch), answer(&server, reply.as_bytes()));
        assert!(answered.is_ok(), "128 MB in all");
    }
}

/// As many as one batch has, of the longest results that are stored.
#[tokio::test]
async fn a_batch_of_a_thousand_results_is_read() {
    let (mut connection, server, _pushed) = connection().await;
    let requests: Vec<_> = (0..1000).flat_map(|_| request(Action::Record, "lock:a")).collect();
    let batch = send(&mut connection, &requests).await;
    let record = format!("-|d|1790000000000|{:032}|host:1|{}", 0, "x".repeat(64 * 1024));
    let reply = format!("${}\r\n{record}\r\n", record.len());
    let serve = async {
        for _ in 0..1000 {
            answer(&server, reply.as_bytes()).await;
            yield_now().await;
        }
    };
    let (all, ()) = tokio::join!(replies(&mut connection, &batch), serve);
    assert!(all.unwrap().iter().all(|reply| matches!(reply, Reply::Recorded(Some(_)))));
}

#[tokio::test]
async fn a_reply_that_waits_when_a_command_is_sent_is_not_its_answer() {
    let (mut connection, server, mut pushed) = connection().await;
    drive(&mut connection, usize::MAX).await;
    answer(&server, b":1\r\n").await;
    // It is there to be read, and was not.
    let arrived = poll_fn(|cx| pushed.poll_recv(cx));
    assert!(tokio::time::timeout(Duration::from_millis(50), arrived).await.is_err());
    let batch = send(&mut connection, &request(RENEW, "lock:a")).await;
    assert_eq!(&*replies(&mut connection, &batch).await.unwrap_err().reason, UNASKED);
    assert!(matches!(pushed.try_recv(), Ok(ConnectionEvent::Closed(_))));
}
