//! Hedged calls to servers that know the same: the next one is asked while the one before does not answer.

use std::time::Duration;

use tokio::task::JoinSet;

/// How long a server may take before the next one is asked, too.
const STAGGER: Duration = Duration::from_millis(100);

/// The first answer, or the error of each call, in their order.
pub(crate) async fn first<T, E>(
    calls: impl IntoIterator<Item = impl Future<Output = Result<T, E>> + Send + 'static>,
) -> Result<T, Vec<E>>
where
    T: Send + 'static,
    E: Send + 'static,
{
    let mut calls = calls.into_iter().enumerate().peekable();
    let mut running = JoinSet::new();
    let mut failed = Vec::new();
    loop {
        if let Some((nth, call)) = calls.next() {
            running.spawn(async move { (nth, call.await) });
        }
        let outcome = match calls.peek() {
            None => running.join_next().await,
            Some(_) => match tokio::time::timeout(STAGGER, running.join_next()).await {
                Ok(outcome) => outcome,
                Err(_) => continue,
            },
        };
        match outcome {
            Some(Ok((_, Ok(answer)))) => return Ok(answer),
            Some(Ok((nth, Err(error)))) => failed.push((nth, error)),
            Some(Err(_)) => {}
            None => {
                failed.sort_by_key(|(nth, _)| *nth);
                return Err(failed.into_iter().map(|(_, error)| error).collect());
            }
        }
    }
}
