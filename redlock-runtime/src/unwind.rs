//! Which handles cross [`catch_unwind`](std::panic::catch_unwind), as at an FFI boundary.
//!
//! The compiler cannot tell, because of a callback, a span and a lock inside. No panic of a caller
//! interrupts a change of these: the engine changes them, and it catches the panics of callbacks.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::{CurrentLock, Election, LockGuard, LockManager, LockRequest, Term};

macro_rules! unwind_safe {
    ($($handle:ty),*) => {
        $(
            impl UnwindSafe for $handle {}
            impl RefUnwindSafe for $handle {}
        )*
    };
}

unwind_safe!(CurrentLock, Election, LockGuard, LockManager, LockRequest, Term);
