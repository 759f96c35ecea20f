#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{IntoConnectionInfo, ProtocolVersion};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{consume_budget, yield_now};

use super::*;
use crate::engine::protocol::Mode;
use crate::engine::redis::connect::{WINDOW, without_timeouts};

const RENEW: Action = Action::Renew { nth: 0, shortens: false };

/// A connection whose server only reads, and that server's end.
async fn connection() -> (RedisConnection, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let info = "redis://unused/".into_connection_info().unwrap();
    let silent = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
    let opening = MultiplexedConnection::new_with_config(&silent, stream, without_timeouts());
    let (connection, driver) = opening.await.unwrap();
    tokio::spawn(driver);
    let driven_by_that_task = ConnectionDriver::new(std::future::pending());
    (RedisConnection::new(Opened { connection, driver: driven_by_that_task }, Session::for_a_test()), server)
}

fn request(action: Action, name: &str) -> Vec<(Id, Request)> {
    let token = Token::from_value("token");
    vec![(1, Request::new(action, name.into(), token, Duration::from_secs(30)))]
}

/// Polls a batch once, as the engine does to send it.
async fn send(batch: &mut Replies) {
    assert!(poll_fn(|cx| Poll::Ready(batch.as_mut().poll(cx).is_pending())).await);
}

/// What the server has read, up to `last`.
async fn read_to(server: &TcpStream, last: &str) -> String {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(last) {
        server.readable().await.unwrap();
        let mut buffer = [0; 4096];
        match server.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => read.extend_from_slice(&buffer[..count]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

#[tokio::test]
async fn a_batch_is_sent_by_its_first_poll_even_when_its_task_has_used_its_budget() {
    let (mut connection, server) = connection().await;
    let (mut acquire, mut release) = (
        connection.submit(&request(Action::Acquire(Mode::OneTry), "lock:acquired"), false),
        connection.submit(&request(Action::Release, "lock:released"), false),
    );
    // After some 128 pushes and replies in one poll, tokio answers "pending" to everything.
    let mut spend = pin!(async {
        loop {
            consume_budget().await;
        }
    });
    let both = poll_fn(|cx| {
        Poll::Ready([spend.as_mut().poll(cx).is_pending(), acquire.as_mut().poll(cx).is_pending()])
    });
    assert_eq!(both.await, [true, true]);
    yield_now().await;
    send(&mut release).await;
    let read = read_to(&server, "lock:released").await;
    assert!(read.contains("lock:acquired"), "the release has overtaken the acquire: {read}");
}

#[tokio::test]
async fn all_batches_that_may_be_in_flight_are_sent_at_once() {
    let (mut connection, server) = connection().await;
    let mut batches: Vec<Replies> =
        (0..WINDOW).map(|nth| connection.submit(&request(RENEW, &format!("lock:<{nth}>")), false)).collect();
    // None may wait for room: a later batch would be polled before it.
    for batch in &mut batches {
        send(batch).await;
    }
    let read = read_to(&server, &format!("<{}>", WINDOW - 1)).await;
    let places: Vec<_> = (0..WINDOW).map(|nth| read.find(&format!("<{nth}>"))).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{places:?}");
}
