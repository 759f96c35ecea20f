//! Hedged calls to servers that know the same: the next one is asked while the one before does not
//! answer.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// How long a server may take before the next one is asked, too.
const STAGGER: Duration = Duration::from_millis(100);

/// The first answer, or the error of each call, in their order.
pub(crate) async fn first<T, E>(
    calls: impl IntoIterator<Item = impl Future<Output = Result<T, E>>>,
) -> Result<T, Vec<E>> {
    let mut calls = calls.into_iter().enumerate().peekable();
    let mut running = Running(Vec::new());
    let mut failed = Vec::new();
    loop {
        running.0.extend(calls.next().map(|(nth, call)| (nth, Box::pin(call))));
        let outcome = match calls.peek() {
            None => running.next().await,
            Some(_) => match tokio::time::timeout(STAGGER, running.next()).await {
                Ok(outcome) => outcome,
                Err(_) => continue,
            },
        };
        match outcome {
            Some((_, Ok(answer))) => return Ok(answer),
            Some((nth, Err(error))) => {
                let at = failed.partition_point(|(other, _)| *other < nth);
                failed.insert(at, (nth, error));
            }
            None => return Err(failed.into_iter().map(|(_, error)| error).collect()),
        }
    }
}

/// The calls that have no outcome yet, with their numbers.
struct Running<C>(Vec<(usize, Pin<Box<C>>)>);

impl<C: Future> Running<C> {
    /// The next outcome; `None` when no call is left.
    async fn next(&mut self) -> Option<(usize, C::Output)> {
        poll_fn(|cx| {
            for (at, (nth, call)) in self.0.iter_mut().enumerate() {
                if let Poll::Ready(outcome) = call.as_mut().poll(cx) {
                    let nth = *nth;
                    drop(self.0.swap_remove(at));
                    return Poll::Ready(Some((nth, outcome)));
                }
            }
            if self.0.is_empty() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}
