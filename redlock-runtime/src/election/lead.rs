//! The way of a candidate: it stands by, leads, steps down, and stands by again.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::term::{Term, first};
use super::{Election, LeadError};
use crate::block_on::block_on;
use crate::engine::command::SHUT_DOWN;
use crate::engine::timers::full_jitter;
use crate::ground::clock::Moment;
use crate::ground::error::LockError;
use crate::ground::telemetry::{self, TermEnd};
use crate::guard::{LockGuard, PendingRelease};
use crate::options::OnLost;
use crate::reentrancy;
use crate::run::until_lost;

/// The pause after an error of the body is this long at least, and its limit doubles from twice
/// this with each further error, up to the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// How the body of a term has ended.
enum Outcome<T, E> {
    Returned(T),
    Failed(E),
    Resigned,
    Lost,
    /// The manager shuts down.
    Closing,
}

/// A held lead. With a future that is dropped, or a panic, the body is gone before it, the term is
/// over for tasks that have it, and the guard releases.
struct Lead {
    term: Term,
    telemetry: telemetry::Lead,
    guard: LockGuard,
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.term.end();
        self.guard.announce(None);
    }
}

impl Lead {
    fn new(election: &Election, guard: LockGuard, text: Arc<str>) -> Self {
        let events = election.locks.engine().events();
        let span = guard.body_span();
        let telemetry =
            telemetry::Lead::begins(&election.label, guard.key(), guard.fencing_token(), events, span);
        guard.announce(Some(text));
        Self { term: Term::new(&guard, election.locks.closing()), telemetry, guard }
    }

    /// Polls the body while the term lasts, and drops it before this returns.
    async fn run<T, E>(
        &self,
        election: &Election,
        body: impl Future<Output = Result<T, E>>,
    ) -> Outcome<T, E> {
        let mut body = pin!(until_lost(&self.guard, OnLost::Cancel, body));
        let mut to_end = pin!(self.term.is_to_end());
        let over = || if election.locks.is_closing() { Outcome::Closing } else { Outcome::Resigned };
        poll_fn(|cx| {
            if to_end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(over());
            }
            match body.as_mut().poll(cx) {
                Poll::Ready(Ok(Err(error))) => Poll::Ready(Outcome::Failed(error)),
                Poll::Ready(Err(_)) => Poll::Ready(Outcome::Lost),
                // It has resigned in this very poll.
                _ if self.term.is_over() => Poll::Ready(over()),
                Poll::Ready(Ok(Ok(value))) => Poll::Ready(Outcome::Returned(value)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Runs a sync body. When it returns after its end, because it was told, it has not returned a
    /// value of its own.
    fn run_blocking<T, E>(
        &self,
        election: &Election,
        body: impl FnOnce(&Term) -> Result<T, E>,
    ) -> Outcome<T, E> {
        let here = reentrancy::enter_here(self.guard.scope());
        let span = self.guard.body_span();
        let output = {
            let _entered = span.enter();
            body(&self.term)
        };
        drop(here);
        match output {
            Err(error) => Outcome::Failed(error),
            Ok(_) if election.locks.is_closing() => Outcome::Closing,
            Ok(_) if self.term.is_over() => Outcome::Resigned,
            Ok(_) if !self.term.is_leading() => Outcome::Lost,
            Ok(value) => Outcome::Returned(value),
        }
    }

    /// Gives the lead to the next candidate. The engine repeats a release that is not answered.
    fn step_down(mut self, end: TermEnd, error: Option<&dyn Display>) -> PendingRelease {
        self.term.end();
        self.guard.announce(None);
        let released = self.guard.begin_release();
        self.telemetry.ends(end, error);
        released
    }
}

/// The errors of a body, one after the other.
#[derive(Default)]
struct Errors(u32);

impl Errors {
    /// The pause after one more. A term that lasted for longer than the longest pause began anew.
    fn pause(&mut self, lasted: Duration) -> Duration {
        if lasted > LONGEST {
            self.0 = 0;
        }
        self.0 = self.0.saturating_add(1);
        let limit = SHORTEST.saturating_mul(2_u32.saturating_pow(self.0)).min(LONGEST);
        SHORTEST + full_jitter(limit.saturating_sub(SHORTEST))
    }
}

/// What follows a term.
enum Next<T> {
    StandBy,
    /// After a pause.
    Pause(Duration),
    /// Behind the others.
    Yield,
    Return(T),
}

impl Election {
    /// Stands by until this process leads, runs `body`, and steps down; then it stands by again,
    /// until the body returns a value: that is returned, after the release.
    ///
    /// The body is dropped, and this candidate stands by again behind the others,
    ///
    /// - when it [resigns](Term::resign),
    /// - when the lead is lost: before its lease ends, and so before another process may lead.
    ///
    /// An error of the body is told to [`on_event`](crate::LockManagerBuilder::on_event), and the
    /// candidate stands by again after a pause of 1 s to 30 s: at random, up to a limit that doubles
    /// with each error, and begins anew after a term of more than 30 s. With
    /// [`stop_on_error`](Self::stop_on_error) the error is returned.
    ///
    /// The next leader follows within a round trip to the server, and one ttl after a leader that
    /// was killed. Redis that is down ends nothing: a candidate waits for it.
    ///
    /// A second call of the same value, or of a clone, waits until the first has ended.
    ///
    /// The future borrows nothing of this value. A task gets it as it is:
    /// `tokio::spawn(election.lead(async move |term| …))`. Inside another `async` block rustc may not
    /// see that it is `Send`.
    ///
    /// # Errors
    ///
    /// [`LeadError::Lock`] with [`LockError::ManagerClosed`] when the manager
    /// [shuts down](crate::LockManager::shutdown): the body is dropped at once, and its lock is
    /// released. [`LeadError::Lock`] too for what no wait can end: a key or a ttl out of range, a
    /// full queue, a body that holds the same key. [`LeadError::Body`] with
    /// [`stop_on_error`](Self::stop_on_error).
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time: the candidate leaves the queue, or its body is
    /// dropped first and then its lock is released.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redlocked::{LockError, LockManager};
    ///
    /// let locks = LockManager::connect("memory://lead-example").await?;
    /// let election = locks.election("billing-loop").ttl(Duration::from_secs(10));
    /// let mut batches = 0;
    /// election
    ///     .lead(async |_term| {
    ///         while batches < 3 {
    ///             batches += 1; // one batch of invoices, then a look at the queue
    ///             tokio::time::sleep(Duration::from_millis(1)).await;
    ///         }
    ///         Ok::<_, LockError>(())
    ///     })
    ///     .await?;
    /// assert_eq!(batches, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lead<T, E, B>(&self, mut body: B) -> impl Future<Output = Result<T, LeadError<E>>> + use<T, E, B>
    where
        E: Display,
        B: AsyncFnMut(Term) -> Result<T, E>,
    {
        // The future borrows nothing, so that it can be spawned.
        let election = self.clone();
        async move {
            let _turn = Arc::clone(&election.turn).lock_owned().await;
            let (text, mut errors) = (election.announcement()?, Errors::default());
            loop {
                let lead = Lead::new(&election, election.request().acquire().await?, Arc::clone(&text));
                let since = election.locks.engine().now();
                let outcome = lead.run(&election, body(lead.term.clone())).await;
                match election.after(lead, outcome, since, &mut errors).await? {
                    Next::StandBy => {}
                    Next::Pause(pause) => election.pause(pause).await?,
                    Next::Yield => election.yield_to_others().await?,
                    Next::Return(value) => return Ok(value),
                }
            }
        }
    }

    /// [`lead`](Self::lead) for sync code: blocks this thread.
    ///
    /// A sync body cannot be stopped. It asks [`Term::is_leading`] between its steps, and returns
    /// when that is false: whatever `Ok` it returns then does not count, and the candidate stands
    /// by again. The lock of a body that goes on after its term is given to nobody in this process,
    /// but another process may lead meanwhile.
    ///
    /// # Errors
    ///
    /// As [`lead`](Self::lead).
    ///
    /// # Panics
    ///
    /// As [`acquire_blocking`](crate::LockRequest::acquire_blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redlocked::{LockError, LockManager};
    ///
    /// let locks = LockManager::connect_blocking("memory://lead-blocking-example")?;
    /// let mut invoices = vec![1, 2, 3].into_iter();
    /// locks.election("billing-loop").lead_blocking(|term| {
    ///     while term.is_leading() && invoices.next().is_some() {}
    ///     Ok::<_, LockError>(())
    /// })?;
    /// assert_eq!(invoices.next(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lead_blocking<T, E: Display>(
        &self,
        mut body: impl FnMut(&Term) -> Result<T, E>,
    ) -> Result<T, LeadError<E>> {
        let engine = self.locks.engine();
        let _turn = block_on(engine, self.turn.lock());
        let (text, mut errors) = (self.announcement()?, Errors::default());
        loop {
            let lead = Lead::new(self, self.request().acquire_blocking()?, Arc::clone(&text));
            let since = engine.now();
            let outcome = lead.run_blocking(self, &mut body);
            match block_on(engine, self.after(lead, outcome, since, &mut errors))? {
                Next::StandBy => {}
                Next::Pause(pause) => block_on(engine, self.pause(pause))?,
                Next::Yield => block_on(engine, self.yield_to_others())?,
                Next::Return(value) => return Ok(value),
            }
        }
    }

    /// Steps down, and says what follows.
    async fn after<T, E: Display>(
        &self,
        lead: Lead,
        outcome: Outcome<T, E>,
        since: Moment,
        errors: &mut Errors,
    ) -> Result<Next<T>, LeadError<E>> {
        let (end, next) = match outcome {
            Outcome::Returned(value) => (TermEnd::Returned, Ok(Next::Return(value))),
            Outcome::Failed(error) => {
                let pause = errors.pause(self.locks.engine().now().since(since));
                let _ = lead.step_down(TermEnd::Failed, Some(&error)).await;
                return if self.stops_on_error {
                    Err(LeadError::Body(error))
                } else {
                    Ok(Next::Pause(pause))
                };
            }
            Outcome::Resigned => (TermEnd::Resigned, Ok(Next::Yield)),
            Outcome::Lost => (TermEnd::Lost, Ok(Next::StandBy)),
            Outcome::Closing => (TermEnd::ManagerClosed, Err(self.closed().into())),
        };
        let released = lead.step_down(end, None);
        // A lock that is lost is released on no account of ours, and the outcome of a release
        // changes nothing.
        if end != TermEnd::Lost {
            let _ = released.await;
        }
        next
    }

    /// The time of the manager's clock. An error when it shuts down meanwhile.
    async fn pause(&self, pause: Duration) -> Result<(), LockError> {
        let engine = self.locks.engine();
        let mut closing = self.locks.closing();
        first(pin!(engine.sleep(pause)), pin!(closing.wait_for(|closing| *closing))).await;
        if self.locks.is_closing() { Err(self.closed()) } else { Ok(()) }
    }

    /// The release has handed the lock on. Where it cannot, over a quorum and on some servers, the
    /// others ask from time to time, and this candidate would always be the first.
    async fn yield_to_others(&self) -> Result<(), LockError> {
        match self.locks.capabilities().await {
            Ok(capabilities) if capabilities.hands_over() => Ok(()),
            _ => self.pause(SHORTEST / 2 + full_jitter(SHORTEST / 2)).await,
        }
    }

    fn closed(&self) -> LockError {
        LockError::ManagerClosed { key: Some(self.key().into()), reason: SHUT_DOWN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_from_one_second_to_thirty_and_begin_anew_after_a_long_term() {
        let mut errors = Errors::default();
        for number in 1..=20_u32 {
            let pause = errors.pause(Duration::from_secs(1));
            let limit = SHORTEST.saturating_mul(2_u32.saturating_pow(number)).min(LONGEST);
            assert!(pause >= SHORTEST && pause <= limit, "{number}: {pause:?}");
        }
        let pauses: Vec<_> = (0..50).map(|_| errors.pause(Duration::ZERO)).collect();
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "candidates come back one by one");
        assert!(errors.pause(Duration::from_secs(31)) <= 2 * SHORTEST);
    }
}
