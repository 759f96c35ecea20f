//! Work that ends with its connection.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::sync::mpsc::UnboundedSender;

use crate::engine::protocol::ConnectionEvent;

/// Does `work` as long as `pushes` has a receiver, which is as long as the connection is in use.
pub(crate) async fn until_closed(pushes: &UnboundedSender<ConnectionEvent>, work: impl Future<Output = ()>) {
    let (mut work, mut closed) = (pin!(work), pin!(pushes.closed()));
    poll_fn(|cx| match closed.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => work.as_mut().poll(cx),
    })
    .await;
}
