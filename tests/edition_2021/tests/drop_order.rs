//! In edition 2021 the temporaries of a tail expression outlive the variables of their block, in
//! 2024 they do not. A locked body follows the edition of its crate.

use std::cell::RefCell;

use lock::{distributed_lock, LockError, LockManager};

thread_local! {
    static DROPPED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

struct Named(&'static str);

impl Named {
    #[allow(clippy::unnecessary_wraps, reason = "it has to be a tail that holds a temporary")]
    fn number(&self) -> Result<usize, LockError> {
        Ok(self.0.len())
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        DROPPED.with_borrow_mut(|dropped| dropped.push(self.0));
    }
}

fn dropped() -> Vec<&'static str> {
    DROPPED.take()
}

macro_rules! function {
    ($($function:tt)*) => {
        mod plain {
            use super::*;

            pub(super) $($function)*
        }

        mod locked {
            use super::*;

            #[distributed_lock(key = "{id}")]
            pub(super) $($function)*
        }

        mod guarded {
            use super::*;

            #[distributed_lock(key = "{id}", guard = _lock)]
            pub(super) $($function)*
        }
    };
}

mod asynchronous {
    use super::*;

    function! {
        async fn tail(id: u32) -> Result<usize, LockError> {
            let _variable = Named("variable");
            let _ = id;
            Named("temporary").number()
        }
    }

    #[tokio::test]
    async fn temporaries_of_the_tail_outlive_the_variables() -> Result<(), LockError> {
        LockManager::connect("memory://edition").await?.set_global();
        plain::tail(1).await?;
        assert_eq!(dropped(), ["variable", "temporary"]);
        locked::tail(1).await?;
        assert_eq!(dropped(), ["variable", "temporary"]);
        guarded::tail(1).await?;
        assert_eq!(dropped(), ["variable", "temporary"]);
        Ok(())
    }
}

mod sync {
    use super::*;

    function! {
        fn tail(id: u32) -> Result<usize, LockError> {
            let _variable = Named("variable");
            let _ = id;
            Named("temporary").number()
        }
    }

    #[test]
    fn temporaries_of_the_tail_outlive_the_variables() -> Result<(), LockError> {
        LockManager::connect_blocking("memory://edition")?.set_global();
        plain::tail(2)?;
        assert_eq!(dropped(), ["variable", "temporary"]);
        locked::tail(2)?;
        assert_eq!(dropped(), ["variable", "temporary"]);
        guarded::tail(2)?;
        assert_eq!(dropped(), ["variable", "temporary"]);
        Ok(())
    }
}
