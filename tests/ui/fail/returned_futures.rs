//! Futures and streams that would be used after the lock was released.

use redlocked::{LockError, distributed_lock};

mod boxed_future_after_other_work {
    use super::*;
    use std::pin::Pin;

    fn work() {}

    #[distributed_lock(key = "nightly")]
    fn nightly() -> Pin<Box<dyn Future<Output = Result<u32, LockError>> + Send>> {
        work();
        Box::pin(async move { Ok(7) })
    }
}

mod impl_future_after_other_work {
    use super::*;

    fn work() {}

    #[distributed_lock(key = "nightly")]
    fn nightly() -> impl Future<Output = Result<u32, LockError>> {
        work();
        async move { Ok(7) }
    }
}

mod returns_a_stream {
    use super::*;

    trait Stream {
        type Item;
    }

    impl Stream for u32 {
        type Item = u32;
    }

    #[distributed_lock(key = "rows:{id}")]
    async fn rows(id: u32) -> Result<impl Stream<Item = u32>, LockError> {
        Ok(id)
    }
}

mod sync_returns_a_boxed_future {
    use super::*;
    use std::pin::Pin;

    #[distributed_lock(key = "nightly")]
    fn nightly() -> Pin<Box<dyn Future<Output = Result<u32, LockError>>>> {
        let work = async { Ok(7) };
        Box::pin(work)
    }
}

mod sync_returns_impl_future {
    use super::*;

    #[distributed_lock(key = "nightly")]
    fn nightly() -> impl Future<Output = Result<u32, LockError>> {
        std::future::ready(Ok(7))
    }
}

fn main() {}
