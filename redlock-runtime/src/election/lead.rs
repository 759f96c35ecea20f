//! The loop of a candidate: it waits in the queue, leads, steps down, and waits again.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::term::{Term, first};
use super::{Election, LeadError};
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::telemetry::{self, TermEnd};
use crate::block_on::block_on;
use crate::engine::command::SHUT_DOWN;
use crate::engine::timers::full_jitter;
use crate::guard::{LockGuard, PendingRelease};
use crate::options::OnLost;
use crate::reentrancy;
use crate::run::until_lost;

/// The pause after an error of the body is this long at least, and its limit doubles from twice
/// this with each further error, up to the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// The end of the body of a term.
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
    since: Moment,
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
    fn new(election: &Election, guard: LockGuard, text: Arc<str>, is_blocking: bool) -> Self {
        let (engine, silence) = (election.locks.engine(), election.longest_silence(is_blocking));
        let (label, span) = (&election.label, guard.body_span());
        let telemetry =
            telemetry::Lead::begins(label, guard.key(), guard.fencing_token(), engine.events(), span);
        guard.announce(Some(text));
        // A lease that was handed over is a claim of a second, which a leader will outlive.
        if guard.remaining() < election.lasting() / 2 {
            guard.renew_now(election.lasting());
        }
        let term = Term::new(&guard, election.locks.closing(), silence, is_blocking);
        Self { term, since: engine.now(), telemetry, guard }
    }

    /// Polls the body while the term lasts, and drops it before this returns.
    async fn run<T, E>(
        &self,
        election: &Election,
        body: impl Future<Output = Result<T, E>>,
    ) -> Outcome<T, E> {
        let mut body = pin!(until_lost(&self.guard, OnLost::Cancel, body));
        let mut to_end = pin!(self.term.is_to_end());
        let mut beats = pin!(self.term.beats());
        let mut beats_on = true;
        let over = || if election.locks.is_closing() { Outcome::Closing } else { Outcome::Resigned };
        poll_fn(|cx| {
            if to_end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(over());
            }
            // A body that blocks its thread in its poll below is not here again.
            beats_on = beats_on && beats.as_mut().poll(cx).is_pending();
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
            Ok(_) if !self.term.lasts() => Outcome::Lost,
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
    /// The pause after one more. A term that lasted for longer than the longest pause began again.
    fn pause(&mut self, lasted: Duration) -> Duration {
        if lasted > LONGEST {
            self.0 = 0;
        }
        self.0 = self.0.saturating_add(1);
        let limit = SHORTEST.saturating_mul(2_u32.saturating_pow(self.0)).min(LONGEST);
        SHORTEST + full_jitter(limit.saturating_sub(SHORTEST))
    }
}

/// The terms of one call, one after the other.
struct Terms {
    election: Election,
    text: Arc<str>,
    errors: Errors,
    /// No other call of this value, or of a clone, has one meanwhile.
    _turn: OwnedMutexGuard<()>,
}

impl Terms {
    async fn of(election: Election) -> Result<Self, LockError> {
        let turn = Arc::clone(&election.turn).lock_owned().await;
        election.check()?;
        let text = election.announcement()?;
        Ok(Self { election, text, errors: Errors::default(), _turn: turn })
    }

    /// Waits until this candidate leads.
    async fn next(&self) -> Result<Lead, LockError> {
        let guard = self.election.request().acquire().await?;
        Ok(Lead::new(&self.election, guard, Arc::clone(&self.text), false))
    }

    /// Steps down. Returns what the call must return, or `None` if the candidate must wait again:
    /// after a pause if the body failed, and at the end of the queue after a resignation.
    async fn after<T, E: Display>(
        &mut self,
        lead: Lead,
        outcome: Outcome<T, E>,
    ) -> Result<Option<T>, LeadError<E>> {
        let election = &self.election;
        match outcome {
            Outcome::Returned(value) => {
                let _ = lead.step_down(TermEnd::Returned, None).await;
                Ok(Some(value))
            }
            Outcome::Failed(error) => {
                let pause = self.errors.pause(election.locks.engine().now().since(lead.since));
                let _ = lead.step_down(TermEnd::Failed, Some(&error)).await;
                if election.stops_on_error {
                    return Err(LeadError::Body(error));
                }
                election.pause(pause).await?;
                Ok(None)
            }
            Outcome::Resigned => {
                let _ = lead.step_down(TermEnd::Resigned, None).await;
                election.yield_to_others().await?;
                Ok(None)
            }
            // A lock that is lost is released on no account of ours.
            Outcome::Lost => {
                drop(lead.step_down(TermEnd::Lost, None));
                Ok(None)
            }
            Outcome::Closing => {
                let _ = lead.step_down(TermEnd::ManagerClosed, None).await;
                Err(election.closed().into())
            }
        }
    }
}

impl Election {
    /// Waits until this process leads, runs `body`, and releases the lock. If the body returns
    /// `Ok`, this returns its value after the release. Otherwise the candidate waits again.
    ///
    /// The body is dropped, and this candidate joins the end of the queue,
    ///
    /// - when it [resigns](Term::resign),
    /// - when the lock is lost: before its lease ends, and so before another process may lead.
    ///
    /// If the body returns an error, [`on_event`](crate::LockManagerBuilder::on_event) gets it, and
    /// the candidate waits again after a pause of 1 s to 30 s. The pause is random, up to a limit
    /// that doubles with each error, and starts again after a term of more than 30 s. With
    /// [`stop_on_error`](Self::stop_on_error), this returns the error.
    ///
    /// The next leader follows within a round trip to the server, or one TTL after a leader was
    /// killed. While Redis is down, a candidate waits.
    ///
    /// A second call of the same value, or of a clone, waits until the first one has returned.
    ///
    /// A body that blocks its thread, or that is not polled for another reason, leads no longer than
    /// [`max_blocked`](Self::max_blocked) and one more TTL. A panic of the body ends this call as any
    /// panic does, and the lock is released: this process is then no longer a candidate.
    ///
    /// A body that cannot fail must still name an error type, or rustc asks for "type annotations":
    /// let it end with `Ok::<_, LockError>(())`.
    ///
    /// The future borrows nothing of this value. In `tokio::spawn`, rustc accepts it as `Send` if
    /// the body owns what it uses: `async move |term| …`. If the body borrows, use
    /// [`lead_fn`](Self::lead_fn).
    ///
    /// # Errors
    ///
    /// [`LeadError::Lock`] with [`LockError::ManagerClosed`] when the manager
    /// [shuts down](crate::LockManager::shutdown): the body is dropped at once, and its lock is
    /// released. Also [`LeadError::Lock`] for errors that no wait can end: a key or a TTL out of
    /// range, a full queue, a body that holds the same key. [`LeadError::Body`] with
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
            let mut terms = Terms::of(election).await?;
            loop {
                let lead = terms.next().await?;
                let outcome = lead.run(&terms.election, body(lead.term.clone())).await;
                if let Some(value) = terms.after(lead, outcome).await? {
                    return Ok(value);
                }
            }
        }
    }

    /// [`lead`](Self::lead) for a function that makes a future for each term, such as a closure
    /// that borrows from the code around it. If the future of the body is `Send`, so is this one.
    ///
    /// In a task that is spawned, or in a method that returns a boxed future, rustc refuses the
    /// future of [`lead`](Self::lead) if the body borrows anything: "implementation of `Send` is not
    /// general enough". This one is accepted there, and so is a body of [`lead`](Self::lead) that
    /// owns what it uses, with `async move`.
    ///
    /// What is made here must not borrow from the closure itself: a closure that changes its
    /// captures, or that is `move` and lends them to its future, is one for [`lead`](Self::lead).
    ///
    /// # Errors
    ///
    /// As [`lead`](Self::lead).
    ///
    /// # Cancel safety
    ///
    /// As [`lead`](Self::lead).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    /// use redlocked::election::{Election, LeadError, Term};
    /// use redlocked::{LockError, LockManager};
    ///
    /// struct Invoices;
    ///
    /// impl Invoices {
    ///     async fn send(&self, term: Term) -> Result<u64, LockError> {
    ///         Ok(term.fencing_token())
    ///     }
    /// }
    ///
    /// async fn send_while_leading(
    ///     election: Election,
    ///     invoices: Arc<Invoices>,
    /// ) -> Result<u64, LeadError<LockError>> {
    ///     election.lead_fn(async |term| invoices.send(term).await).await
    /// }
    ///
    /// let locks = LockManager::connect("memory://lead-fn-example").await?;
    /// let sent = tokio::spawn(send_while_leading(locks.election("billing-loop"), Arc::new(Invoices)));
    /// assert!(sent.await?? > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lead_fn<T, E, B, F>(
        &self,
        mut body: B,
    ) -> impl Future<Output = Result<T, LeadError<E>>> + use<T, E, B, F>
    where
        E: Display,
        B: FnMut(Term) -> F,
        F: Future<Output = Result<T, E>>,
    {
        let election = self.clone();
        async move {
            let mut terms = Terms::of(election).await?;
            loop {
                let lead = terms.next().await?;
                let outcome = lead.run(&terms.election, body(lead.term.clone())).await;
                if let Some(value) = terms.after(lead, outcome).await? {
                    return Ok(value);
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
        let mut terms = block_on(engine, Terms::of(self.clone()))?;
        loop {
            let guard = self.request().acquire_blocking()?;
            let lead = Lead::new(self, guard, Arc::clone(&terms.text), true);
            let outcome = lead.run_blocking(self, &mut body);
            if let Some(value) = block_on(engine, terms.after(lead, outcome))? {
                return Ok(value);
            }
        }
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
