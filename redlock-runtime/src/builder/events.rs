//! The callback of a manager.

use super::LockManagerBuilder;
use crate::ground::telemetry::{Events, LockEvent};

impl LockManagerBuilder {
    /// `tell` is called when a call of this manager has a lock, when a lock is lost while it is
    /// held, and when a call fails because another caller has the lock: for what neither metrics
    /// nor spans reach, such as a page, a counter of the service's own, or a switch that follows a
    /// leader's lock.
    ///
    /// It runs inside the call, and for a loss on the thread that finds it, which may be the
    /// engine's, on which all locks of the manager depend: it must return at once. It may send to a
    /// channel; it must not block, take a lock, or wait for one. It may run on several threads at
    /// the same time. A panic in it is caught, and leaves a line in the log with the feature
    /// `tracing`; a program that is built with `panic = "abort"` ends.
    ///
    /// An acquired lock is told before the body runs, and a loss after that. A release is not told,
    /// nor is the end of a process. With a second call, the last callback counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{LockEvent, LockManager};
    ///
    /// let (told, mut events) = tokio::sync::mpsc::unbounded_channel();
    /// let builder = LockManager::builder("memory://on-event-example").on_event(move |event| {
    ///     if let LockEvent::Lost { key, reason, .. } = event {
    ///         let _ = told.send(format!("{key}: {}", reason.as_str()));
    ///     }
    /// });
    /// let locks = builder.connect().await?;
    /// let _guard = locks.lock("leader").acquire().await?;
    /// locks.force_release("leader").await?;
    /// assert_eq!(events.recv().await.as_deref(), Some("leader: force_released"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_event(mut self, tell: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        self.events = Events::new(tell);
        self
    }
}
