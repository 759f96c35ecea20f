//! Questions that tokio answers only by a panic.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// False when `question` panics, or cannot be asked: because the program aborts on panics, or this
/// thread is panicking.
///
/// The panic hook of the program, which may end the process, does not hear of it: for some
/// microseconds a hook stands in its place that hands the panics of other threads on to it. Call it
/// without a lock that a panic hook may need.
pub(crate) fn is_without_panic(question: impl FnOnce()) -> bool {
    if cfg!(panic = "abort") || thread::panicking() {
        return false;
    }
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let programs = Arc::new(take_hook());
    let (others, asks) = (Arc::clone(&programs), thread::current().id());
    let ours: PanicHook = Box::new(move |panic| {
        if thread::current().id() != asks {
            others(panic);
        }
    });
    let address = ptr::from_ref(&*ours).cast::<()>();
    set_hook(ours);
    let answered = catch_unwind(AssertUnwindSafe(question));
    let found = take_hook();
    if ptr::from_ref(&*found).cast::<()>() == address {
        // No thread runs it any more, so it is the only other owner.
        drop(found);
        Arc::into_inner(programs).into_iter().for_each(set_hook);
    } else {
        // The program has set another one meanwhile.
        set_hook(found);
    }
    answered.is_ok()
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

type PanicHook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync + 'static>;
