//! Every shape of function, run: the lock is taken before the body, and released after it.
//!
//! A second manager on the same store is refused the key inside each body, and gets it before and
//! after the call. A shape that compiles but locks nothing, such as a future that is returned
//! before it runs, fails here.
//!
//! `attribute` tests end to end, with a real server; `by_hand` compares each key with that of `key!`;
//! `future_size` has the size of the expansion's future; `stack` its stack; `stacking` other
//! attributes, above and below.
#![allow(named_arguments_used_positionally, reason = "one of the ways of writing a key, in `by_hand`")]

use std::cell::Cell;
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use redlocked::{LockError, LockGuard, LockManager, distributed_lock};

mod attribute;
mod boxed;
mod by_hand;
mod current;
mod drops;
mod functions;
mod future_size;
mod holding;
mod hygiene;
mod keys;
mod macros;
mod methods;
mod nested;
mod options;
mod returned;
mod stack;
mod stacking;
mod types;

type Outcome<T = ()> = Result<T, LockError>;

/// The managers of two processes; the attribute finds the first.
fn managers() -> Outcome<&'static (LockManager, LockManager)> {
    static MANAGERS: OnceLock<Outcome<(LockManager, LockManager)>> = OnceLock::new();
    let connect = || LockManager::connect_blocking("memory://shapes");
    let managers = MANAGERS.get_or_init(|| {
        let managers = (connect()?, connect()?);
        managers.0.set_global();
        Ok(managers)
    });
    managers.as_ref().map_err(Clone::clone)
}

/// Called by each body: the second manager does not get the lock now.
async fn held(key: &str) -> Outcome {
    let refused = managers()?.1.lock(key).try_acquire().await;
    assert!(matches!(&refused, Err(error) if error.is_busy()), "the body runs without its lock: {refused:?}");
    Ok(())
}

fn held_blocking(key: &str) -> Outcome {
    let refused = managers()?.1.lock(key).acquire_blocking();
    assert!(matches!(&refused, Err(error) if error.is_busy()), "the body runs without its lock: {refused:?}");
    Ok(())
}

/// The lock is free before and after `call`.
async fn locked<T>(key: &str, call: impl Future<Output = T>) -> Outcome<T> {
    let others = &managers()?.1;
    others.lock(key).try_acquire().await?.release().await?;
    let output = call.await;
    others.lock(key).try_acquire().await?.release().await?;
    Ok(output)
}

fn locked_blocking<T>(key: &str, call: impl FnOnce() -> T) -> Outcome<T> {
    let others = &managers()?.1;
    others.lock(key).acquire_blocking()?.release_blocking()?;
    let output = call();
    others.lock(key).acquire_blocking()?.release_blocking()?;
    Ok(output)
}
