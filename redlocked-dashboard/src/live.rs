//! What was last seen, for all browsers together: the server is asked once a second at most, and only
//! while somebody looks.
//!
//! A page asks for what it shows each second. The first that finds it too old asks the server; the
//! others wait for that answer. A question that fails leaves what was seen before, with the reason.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use redlocked::LockError;
use tokio::sync::Mutex;

/// What is younger than this is not asked for again. A little less than the second in which pages
/// ask, so that each of their questions finds something new.
pub(crate) const FRESH: Duration = Duration::from_millis(900);

/// What was last seen of one thing.
pub(crate) struct Live<T> {
    last: Mutex<Last<T>>,
}

struct Last<T> {
    asked: Option<Instant>,
    seen: Seen<T>,
}

/// What a page shows: the last answer, and what has gone wrong since.
pub(crate) struct Seen<T> {
    /// The last answer, and when it came.
    pub(crate) answer: Option<(Arc<T>, SystemTime)>,
    /// Why there is no newer one.
    pub(crate) trouble: Option<Arc<LockError>>,
}

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Self { answer: self.answer.clone(), trouble: self.trouble.clone() }
    }
}

impl<T> Default for Live<T> {
    fn default() -> Self {
        Self { last: Mutex::new(Last { asked: None, seen: Seen { answer: None, trouble: None } }) }
    }
}

impl<T> Live<T> {
    /// The last answer, if it is younger than that; else a new one.
    pub(crate) async fn get(
        &self,
        fresh: Duration,
        ask: impl Future<Output = Result<T, LockError>>,
    ) -> Seen<T> {
        let mut last = self.last.lock().await;
        if last.asked.is_none_or(|asked| asked.elapsed() >= fresh) {
            let answer = ask.await;
            // After the answer: a server that answers slowly gets its pause, too.
            last.asked = Some(Instant::now());
            match answer {
                Ok(answer) => {
                    last.seen = Seen { answer: Some((Arc::new(answer), SystemTime::now())), trouble: None };
                }
                Err(error) => last.seen.trouble = Some(Arc::new(error)),
            }
        }
        last.seen.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn many_that_look_ask_once_and_a_failure_keeps_what_was_seen() {
        let (live, asked) = (Live::default(), AtomicU32::new(0));
        let look = |fresh, answer: Result<u32, LockError>| {
            live.get(fresh, async {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                answer
            })
        };
        let hour = Duration::from_secs(3600);
        let all = futures_util::future::join_all((0..10).map(|_| look(hour, Ok(7)))).await;
        assert!(all.iter().all(|seen| seen.answer.as_ref().is_some_and(|(seven, _)| **seven == 7)));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let seen = look(Duration::ZERO, Err(LockError::NotConfigured)).await;
        assert!(seen.answer.is_some() && seen.trouble.is_some());
        let seen = look(Duration::ZERO, Ok(8)).await;
        assert!(seen.answer.is_some_and(|(eight, _)| *eight == 8) && seen.trouble.is_none());
    }
}
