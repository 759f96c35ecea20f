//! `fn … -> impl Future`, whose whole body is an `async` block: the lock goes inside it. A future
//! inside something else is a handle: the lock is around it.
#![allow(clippy::manual_async_fn, reason = "the shape under test")]

use super::*;

mod functions {
    use super::*;

    #[distributed_lock(key = "returned:{n}", guard = lock, wait = "1s")]
    fn returned(n: u32) -> impl Future<Output = Outcome<u32>> + Send {
        async move {
            held("returned:7").await?;
            assert_eq!(lock.key(), "returned:7");
            if n == 0 {
                return Ok(0);
            }
            Ok(n)
        }
    }

    #[distributed_lock(key = "returned:{name}")]
    fn borrowed(name: &str) -> impl Future<Output = Outcome<usize>> {
        const ONE: usize = 1;
        async move {
            held("returned:b").await?;
            Ok(name.len() + ONE)
        }
    }

    #[distributed_lock(key = "returned:no move")]
    fn without_move() -> impl Future<Output = Outcome> {
        async { held("returned:no move").await }
    }

    #[tokio::test]
    async fn impl_future() -> Outcome {
        assert_eq!(locked("returned:7", returned(7)).await??, 7);
        assert_eq!(locked("returned:b", borrowed("b")).await??, 2);
        locked("returned:no move", without_move()).await?
    }

    #[tokio::test]
    async fn nothing_is_locked_before_the_first_poll() -> Outcome {
        let future = returned(8);
        managers()?.1.lock("returned:8").try_acquire().await?.release().await?;
        drop(future);
        Ok(())
    }
}

mod methods {
    use super::*;

    struct Shop {
        tenant: String,
        sold: u32,
    }

    trait Store {
        fn sell(&mut self, n: u32) -> impl Future<Output = Outcome<u32>> + Send;

        #[distributed_lock(key = "returned:default:{n}")]
        fn provided(&self, n: u32) -> impl Future<Output = Outcome<u32>> + Send {
            async move {
                held("returned:default:7").await?;
                Ok(n)
            }
        }
    }

    impl Store for Shop {
        #[distributed_lock(key = "returned:{self.tenant}:{n}", on_busy = Ok(0))]
        fn sell(&mut self, n: u32) -> impl Future<Output = Outcome<u32>> + Send {
            async move {
                held("returned:acme:7").await?;
                self.sold += n;
                Ok(self.sold)
            }
        }
    }

    impl Shop {
        #[distributed_lock(key = "returned:iterator:{self.tenant}")]
        fn list(&self) -> impl Future<Output = Outcome<impl Iterator<Item = char>>> {
            async move {
                held("returned:iterator:acme").await?;
                Ok(self.tenant.chars())
            }
        }
    }

    #[tokio::test]
    async fn impl_future() -> Outcome {
        let mut shop = Shop { tenant: "acme".to_owned(), sold: 0 };
        assert_eq!(locked("returned:acme:7", shop.sell(7)).await??, 7);
        assert_eq!(locked("returned:default:7", shop.provided(7)).await??, 7);
        assert_eq!(locked("returned:iterator:acme", shop.list()).await??.count(), 4);
        Ok(())
    }
}

mod handles {
    use super::*;

    // The lock covers the creation of the future, not its run.
    #[distributed_lock(key = "returned:handle:{n}")]
    fn registers(n: u32) -> Result<impl Future<Output = u32>, LockError> {
        held_blocking("returned:handle:7")?;
        Ok(async move { n })
    }

    #[distributed_lock(key = "returned:boxed handle:{n}", on_error = |_| None)]
    fn registers_boxed(n: u32) -> Option<Pin<Box<dyn Future<Output = u32> + Send>>> {
        held_blocking("returned:boxed handle:7").ok()?;
        Some(Box::pin(async move { n }))
    }

    #[tokio::test]
    async fn future_in_a_result() -> Outcome {
        let handle = locked_blocking("returned:handle:7", || registers(7))??;
        assert_eq!(handle.await, 7);
        Ok(())
    }

    #[tokio::test]
    async fn future_in_an_option() -> Outcome {
        let handle = locked_blocking("returned:boxed handle:7", || registers_boxed(7))?;
        let output = match handle {
            Some(handle) => Some(handle.await),
            None => None,
        };
        assert_eq!(output, Some(7));
        Ok(())
    }
}

mod instrumented {
    use super::*;

    #[distributed_lock(key = "returned:above:{n}")]
    #[tracing::instrument(err)]
    fn above(n: u32) -> impl Future<Output = Outcome<u32>> {
        async move {
            held("returned:above:7").await?;
            Ok(n)
        }
    }

    #[tracing::instrument]
    #[distributed_lock(key = "returned:below:{n}")]
    fn below(n: u32) -> impl Future<Output = Outcome<u32>> {
        async move {
            held("returned:below:7").await?;
            Ok(n)
        }
    }

    #[tokio::test]
    async fn impl_future() -> Outcome {
        assert_eq!(locked("returned:above:7", above(7)).await??, 7);
        assert_eq!(locked("returned:below:7", below(7)).await??, 7);
        Ok(())
    }
}
