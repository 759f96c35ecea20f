#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub use redlock_macros::distributed_lock;
pub use redlock_runtime::{
    Acquire, Capabilities, FromLockError, Holder, LockError, LockGuard, LockInfo, LockManager,
    LockManagerBuilder, LockRequest, LostReason, OnLost, ReleaseOutcome,
};

#[doc(hidden)]
pub use redlock_runtime::__private;
