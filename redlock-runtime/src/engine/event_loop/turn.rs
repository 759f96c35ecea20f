//! How a poll of the loop ends, and what runs before the next one.

use std::future::poll_fn;
use std::task::Poll;

use tokio::task::yield_now;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum PollOutcome {
    /// There may be more to do at once, after other tasks have had their turn and the runtime has
    /// looked for I/O events.
    Again,
    /// There is more to do at once, after the tasks that can run now.
    AfterOthers,
    /// Every handle is gone, and everything is released.
    Ended,
    /// The clock of this runtime stands still (`tokio::time::pause`): the loop must run elsewhere.
    NoClock,
}

impl PollOutcome {
    /// Lets others run. False if this task polls the loop no more.
    pub(in crate::engine) async fn lets_others_run(self) -> bool {
        match self {
            Self::Again => yield_now().await,
            Self::AfterOthers => tasks_run().await,
            Self::Ended | Self::NoClock => return false,
        }
        true
    }
}

/// The tasks that can run now do.
async fn tasks_run() {
    let mut have_run = false;
    poll_fn(|cx| {
        if have_run {
            return Poll::Ready(());
        }
        have_run = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
