//! A task of a process: it is polled as that process, and only while that runs.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use redlock_runtime::simulation::{RuntimeNumber, Work};

use tokio::task::consume_budget;

use super::{Place, ProcessId, World};

/// How much a task of tokio may do in one poll.
const BUDGET: u64 = 129;

/// The work of a task, until it is done or dropped.
pub(super) type Slot = Arc<Mutex<Option<Work>>>;

struct Task {
    place: Place,
    work: Slot,
    /// It came later than it could, and is not delayed once more.
    is_late: bool,
}

/// Starts a task in a runtime of a process.
pub fn spawn(process: ProcessId, runtime: RuntimeNumber, work: impl Future<Output = ()> + Send + 'static) {
    start(&World::here(), Place { process, runtime }, Box::pin(work));
}

/// Beside the task that calls it.
pub fn spawn_here(work: impl Future<Output = ()> + Send + 'static) {
    let world = World::here();
    start(&world, world.place.get(), Box::pin(work));
}

pub(super) fn start(world: &World, place: Place, work: Work) {
    if world.processes.borrow()[place.process.0].ended.contains(&place.runtime) {
        // As tokio does it.
        world.at_place(place, || drop(work));
        return;
    }
    let work = Arc::new(Mutex::new(Some(work)));
    world.processes.borrow_mut()[place.process.0].note_task(place.runtime, Arc::clone(&work));
    drop(tokio::spawn(Task { place, work, is_late: false }));
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(world) = World::here_if_any() else {
            return Poll::Ready(());
        };
        world.counts_poll();
        if world.spins() {
            return Poll::Pending;
        }
        {
            let process = &mut world.processes.borrow_mut()[self.place.process.0];
            if !process.runs(self.place.runtime) {
                process.park(cx.waker().clone());
                return Poll::Pending;
            }
        }
        if !self.is_late && world.chance(world.reorder.get()) {
            self.is_late = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.is_late = false;
        if world.chance(world.reorder.get()) {
            // As after much work in one poll: from then on, tokio answers "pending" to everything.
            for _ in 0..world.number(0..BUDGET) {
                let _ = pin!(consume_budget()).poll(cx);
            }
        }
        let before = world.place.replace(self.place);
        let (polled, done) = match &mut *self.work.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(work) => match work.as_mut().poll(cx) {
                Poll::Ready(()) => (Poll::Ready(()), true),
                Poll::Pending => (Poll::Pending, false),
            },
            None => (Poll::Ready(()), false),
        };
        if done {
            let work = self.work.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            drop(work);
        }
        world.place.set(before);
        polled
    }
}
