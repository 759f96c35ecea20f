//! Asking several servers that know the same: one after the other, and the next one, too, while one does not answer.

use std::time::Duration;

use tokio::task::JoinSet;

/// How long one is asked alone.
const STAGGER: Duration = Duration::from_millis(100);

/// The first answer, or why there is none from each, in the order of the questions.
pub(crate) async fn first<T, E>(
    questions: impl IntoIterator<Item = impl Future<Output = Result<T, E>> + Send + 'static>,
) -> Result<T, Vec<E>>
where
    T: Send + 'static,
    E: Send + 'static,
{
    let mut questions = questions.into_iter().enumerate().peekable();
    let mut asked = JoinSet::new();
    let mut failed = Vec::new();
    loop {
        if let Some((nth, question)) = questions.next() {
            asked.spawn(async move { (nth, question.await) });
        }
        let outcome = match questions.peek() {
            None => asked.join_next().await,
            Some(_) => match tokio::time::timeout(STAGGER, asked.join_next()).await {
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
